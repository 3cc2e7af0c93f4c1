"""The XML of the original system can be read, and written as TOML with the same meaning."""

import tomllib
from pathlib import Path

import pytest

from history.errors import ConfigurationError
from triggers.cli.patchbay import to_toml
from triggers.patchbay import read_patchbay
from triggers.patchbay.outputs import outlet_of
from triggers.patchbay.wiring.checks import provider_name
from triggers.patchbay.wiring.model import DestinationEntry, PatchBayFile, ProviderEntry, SinkEntry
from triggers.patchbay.wiring.toml_reader import read_with_notes
from triggers.patchbay.wiring.xml_elements import parse
from triggers.patchbay.wiring.xml_reader import from_xml

XML = """<?xml version="1.0"?>
<!DOCTYPE dynamo-message-system PUBLIC "-//Art Technology Group, Inc.//DTD Dynamo Message System//EN"
  "http://www.atg.com/dtds/patchbay/dynamoMessagingSystem_1.0.dtd">
<dynamo-message-system>
  <patchbay>
    <provider>
      <provider-name>sqldms</provider-name>
      <supports-transactions>true</supports-transactions>
    </provider>
    <message-source>
      <nucleus-name>/shop/SubmitOrder</nucleus-name>
      <output-port>
        <output-destination>
          <destination-name>patchbay:/Fulfillment/SubmitOrder</destination-name>
          <destination-type>Topic</destination-type>
        </output-destination>
      </output-port>
    </message-source>
    <message-sink>
      <nucleus-name>/shop/OrderFulfiller</nucleus-name>
      <input-port>
        <port-name>OrderPort</port-name>
        <input-destination>
          <provider-name>sqldms</provider-name>
          <destination-name>sqldms:/Fulfillment/SubmitOrder</destination-name>
          <destination-type>Topic</destination-type>
          <message-selector>JMSType = 'order' AND total &lt; 9</message-selector>
          <durable-subscriber-name>Fulfiller</durable-subscriber-name>
          <no-local>true</no-local>
          <redelivery>
            <max-attempts>3</max-attempts>
            <delay>60000</delay>
            <failure-output-port>FulfillmentError</failure-output-port>
          </redelivery>
        </input-destination>
      </input-port>
      <redelivery-port>
        <port-name>FulfillmentError</port-name>
        <output-destination>
          <destination-name>patchbay:/Fulfillment/ErrorNotification</destination-name>
          <destination-type>Queue</destination-type>
        </output-destination>
        <output-destination>
          <destination-name>patchbay:/Fulfillment/DeadMessageQueue</destination-name>
          <destination-type>Queue</destination-type>
        </output-destination>
      </redelivery-port>
    </message-sink>
    <message-filter>
      <nucleus-name>/shop/2Price</nucleus-name>
      <input-port>
        <input-destination>
          <destination-name>localdms:/local/Prices</destination-name>
        </input-destination>
      </input-port>
      <output-port>
        <port-name>OUT</port-name>
        <output-destination><destination-name>Priced</destination-name></output-destination>
      </output-port>
    </message-filter>
  </patchbay>
  <message-registry>
    <message-family>
      <message-family-name>Commerce</message-family-name>
      <message-type>
        <jms-type>shop.order</jms-type>
        <message-class>shop.Order</message-class>
        <description>An "order"</description>
      </message-type>
    </message-family>
  </message-registry>
</dynamo-message-system>
"""


def test_queues_topics_ports_and_redelivery_are_read_and_what_is_left_out_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "dynamoMessagingSystem.xml"
    file.write_text(XML)

    wiring = read_patchbay(file)

    (source,), (sink,), (price,) = wiring.source, wiring.sink, wiring.filter
    assert (source.name, source.component) == ("/shop/SubmitOrder", "shop:SubmitOrder")
    assert (source.output[0].port, source.output[0].to[0].type) == ("DEFAULT", "topic")
    (place,) = sink.input[0].sources
    assert (place.destination, place.durable_subscriber) == ("Fulfillment/SubmitOrder", "Fulfiller")
    assert place.selector == "JMSType = 'order' AND total < 9"
    assert place.redelivery is not None
    assert (place.redelivery.max_attempts, place.redelivery.delay.total_seconds()) == (3, 60)
    assert [one.destination for one in sink.redelivery_port[0].to] == [
        "Fulfillment/ErrorNotification",
        "Fulfillment/DeadMessageQueue",
    ]
    assert price.component == "shop:_2Price"
    assert (price.input[0].sources[0].provider, price.output[0].to[0].provider) == ("localdms", None)
    assert wiring.patchbay.default_provider == "sqldms"
    assert (wiring.message[0].family, wiring.message[0].type) == ("Commerce", "shop.order")
    assert f"{file}, line 23: Fulfillment/SubmitOrder: no-local left out" in caplog.text


def test_what_has_no_counterpart_is_told() -> None:
    notes = from_xml(XML, "bay.xml").notes

    assert notes == [
        "bay.xml, line 6: provider sqldms: supports-transactions left out; its url says where it is",
        (
            "bay.xml, line 23: Fulfillment/SubmitOrder: no-local left out; "
            "exclude your own messages with <message-selector>"
        ),
        "bay.xml, line 52: local/Prices: a queue, for it has no <destination-type>",
        "bay.xml, line 58: Priced: a queue, for it has no <destination-type>",
    ]


def test_the_toml_of_it_says_the_same() -> None:
    raw = from_xml(XML).raw

    assert tomllib.loads(to_toml(raw)) == raw


def test_text_of_any_kind_is_written_so_that_it_is_read_again() -> None:
    raw = {"patchbay": {"name": 'a "b" \\ \x7f\n\t é', "delays": False, "release_attempts": 3}}

    assert tomllib.loads(to_toml(raw)) == raw


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<!DOCTYPE a [<!ENTITY b "c">]><dynamo-message-system/>', "declares an entity"),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "declares an entity"),
        ("<dynamo-message-system>", "not well-formed XML"),
        ("<other/>", "begins with <other>"),
        (XML.replace("<max-attempts>3<", "<max-attempts>three<"), "<max-attempts> is 'three'"),
        (
            XML.replace("failure-output-port>", "failure-port>"),
            "line 33: <failure-port> is unknown in <redel",
        ),
        (
            XML.replace("<failure-output-port>FulfillmentError</failure-output-port>", ""),
            "no <failure-output",
        ),
        (
            XML.replace("durable-subscriber-name>", "durable-subscription-name>"),
            "write <durable-subscriber-name>",
        ),
        (XML.replace("message-sink>", "message-skin>"), "line 19: <message-skin> is unknown in <patchbay>"),
        (XML.replace("<delay>60000</delay>", "<delay>1</delay><delay>2</delay>"), "<delay> stands twice"),
        (XML.replace("<message-sink>", '<message-sink xml-combine="replace">'), "is not supported"),
        (XML.replace(">Topic<", ">Tropic<", 1), "line 13: <destination-type> is 'Tropic'"),
        (XML.replace("sqldms:/Fulf", "localdms:/Fulf"), "is not of the provider sqldms"),
        (XML.replace("<nucleus-name>/shop/SubmitOrder</nucleus-name>", ""), "no <nucleus-name>"),
    ],
    ids=[
        *("entity", "external-entity", "unclosed", "other-root", "number", "failure-port"),
        *("no-failure-port", "subscriber", "sink", "twice", "combine", "type"),
        *("other-provider", "nucleus-name"),
    ],
)
def test_what_cannot_be_used_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        from_xml(text)


def bay(*elements: str) -> str:
    return f"<dynamo-message-system><patchbay>{''.join(elements)}</patchbay></dynamo-message-system>"


def destination(
    direction: str, name: str, *more: str, kind: str = "Topic", provider: str | None = None
) -> str:
    named = "" if provider is None else f"<provider-name>{provider}</provider-name>"
    return (
        f"<{direction}-port><{direction}-destination>{named}<destination-name>{name}</destination-name>"
        f"<destination-type>{kind}</destination-type>{''.join(more)}</{direction}-destination></{direction}-port>"
    )


def component(kind: str, name: str, *ports: str) -> str:
    return f"<message-{kind}><nucleus-name>{name}</nucleus-name>{''.join(ports)}</message-{kind}>"


def read(tmp_path: Path, *texts: str) -> tuple[PatchBayFile, str]:
    """Read files; return their wiring, and all notes about them."""
    files = [tmp_path / f"{number}.{'xml' if '<' in text else 'toml'}" for number, text in enumerate(texts)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    found, notes = read_with_notes(*files)
    return found, "\n".join(notes)


def test_the_provider_local_is_local_jms(tmp_path: Path) -> None:
    wiring, notes = read(
        tmp_path,
        bay(
            component(
                "source", "/shop/Orders", destination("output", "localdms:/local/Orders", provider="local")
            ),
            component("sink", "/shop/Book", destination("input", "localdms:/local/Orders")),
        ),
    )

    assert dict(wiring.providers) == {"localdms": ProviderEntry(url="local://")}
    assert wiring.source[0].output[0].to[0] == DestinationEntry(
        destination="local/Orders", provider="localdms", type="topic"
    )
    assert wiring.sink[0].input[0].sources[0].provider == "localdms"
    assert "/shop/Orders, port DEFAULT, to local/Orders: the source itself runs the sinks" in notes


OTHER = "<provider><provider-name>MQSeries</provider-name><client-id>shop</client-id></provider>"


def test_a_declared_provider_does_not_become_the_default(tmp_path: Path) -> None:
    wiring, notes = read(
        tmp_path,
        bay(
            OTHER,
            component("source", "/shop/Orders", destination("output", "patchbay:/Orders")),
            component("source", "/shop/Bills", destination("output", "jms/q:Bills", provider="MQSeries")),
        ),
        "[providers.MQSeries]\nurl = 'memory://'",
    )

    orders, bills = (source.output[0].to[0] for source in wiring.source)
    assert provider_name(wiring, orders) == "sqldms"
    assert (provider_name(wiring, bills), bills.destination) == ("MQSeries", "jms/q:Bills")
    assert "provider MQSeries: client-id left out" in notes
    assert "provider sqldms: its url sqlite:///patchbay.db is a guess" in notes


def test_a_provider_without_a_place_is_no_file_that_nobody_named(tmp_path: Path) -> None:
    text = bay(OTHER, component("source", "/shop/Bills", destination("output", "Bills", provider="MQSeries")))

    with pytest.raises(ConfigurationError, match=r"no provider 'MQSeries'.*add \[providers.MQSeries\]"):
        read(tmp_path, text)


def test_a_toml_file_has_the_last_word_on_the_default_provider_and_on_places(tmp_path: Path) -> None:
    wiring, notes = read(
        tmp_path,
        "[patchbay]\ndefault_provider = 'jms'\n[providers]\njms = {url = 'memory://'}",
        bay(component("source", "/shop/Orders", destination("output", "patchbay:/Orders"))),
    )

    assert dict(wiring.providers) == {"jms": ProviderEntry(url="memory://")}
    assert provider_name(wiring, wiring.source[0].output[0].to[0]) == "jms"
    assert "a guess" not in notes


def test_only_a_named_subscription_of_a_topic_lasts(tmp_path: Path) -> None:
    named = "<durable-subscriber-name>Book</durable-subscriber-name>"
    wiring, notes = read(
        tmp_path,
        bay(
            component(
                "sink",
                "/shop/Book",
                destination("input", "sqldms:/A"),
                destination("input", "sqldms:/B", named),
                destination("input", "MQ:/C", provider="MQ"),
            )
        ).replace("<patchbay>", "<patchbay><provider><provider-name>MQ</provider-name></provider>"),
        "[providers]\nsqldms = {url = 'sqlite:///shop.db'}\nMQ = {url = 'redis://127.0.0.1'}",
    )

    (port,) = wiring.sink[0].input
    assert [outlet_of(wiring, source).address for source in port.sources] == [
        "topic://A?durable=no",
        "topic://B",
        "C",
    ]
    assert "from C: provider MQ has no subscriptions that end" in notes


def test_a_component_without_ports_is_left_out_and_said(tmp_path: Path) -> None:
    wiring, notes = read(
        tmp_path,
        bay(
            component("source", "/shop/Silent"),
            component("sink", "/shop/Deaf", "<input-port><port-name>IN</port-name></input-port>"),
            component("filter", "/shop/Book", destination("input", "localdms:/local/Orders")),
        ),
    )

    assert [found.name for found in wiring.components] == ["/shop/Book"]
    assert isinstance(wiring.components[0], SinkEntry)
    assert "0.xml, line 1: component /shop/Silent left out" in notes
    assert "port IN of /shop/Deaf left out: it has no destination" in notes
    assert "filter /shop/Book taken as a sink" in notes


def test_components_spread_over_files_add_up(tmp_path: Path) -> None:
    first = bay(
        component("source", "/shop/Orders"),
        component("sink", "/shop/Book", destination("input", "localdms:/local/A")),
    )
    second = bay(
        component("source", "/shop/Orders", destination("output", "localdms:/local/A")),
        component("sink", "/shop/Book", destination("input", "localdms:/local/B")),
    )
    third = bay(component("source", "/shop/Orders", destination("output", "localdms:/local/A")))

    wiring, notes = read(tmp_path, first, second, third)

    assert [entry.destination for entry in wiring.sink[0].input[0].sources] == ["local/A", "local/B"]
    assert [entry.destination for entry in wiring.source[0].output[0].to] == ["local/A"], "once"
    assert notes == (
        "/shop/Orders, port DEFAULT, to local/A: the source itself runs the sinks. If one fails or the "
        "process ends, nothing sends the message again"
    )


def test_what_is_left_of_registry_and_local_jms_is_said(tmp_path: Path) -> None:
    text = """<dynamo-message-system>
      <patchbay/>
      <local-jms><jndi-prefix>/local</jndi-prefix></local-jms>
      <message-registry><message-family><message-type><jms-type>a</jms-type>
        <message-context>session</message-context></message-type></message-family></message-registry>
    </dynamo-message-system>"""

    wiring, notes = read(tmp_path, text)

    assert [entry.type for entry in wiring.message] == ["a"]
    assert "0.xml, line 3: <local-jms> left out" in notes
    assert "0.xml, line 5: <message-context> of the message registry left out" in notes


@pytest.mark.slow
@pytest.mark.timeout(20)
def test_a_text_of_many_lines_is_read_in_one_pass() -> None:
    """Two megabytes took 20 s when each line was added to the text before it."""
    lines = "\n".join(["<b/> a"] * 400_000)

    (top,) = [parse(f"<a>{lines}</a>", "wiring.xml")]

    assert top.text.count(" a") == len(top.children) == 400_000
