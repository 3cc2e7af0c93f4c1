"""The original's XML: read, written as TOML, and the same again."""

import tomllib
from pathlib import Path

import pytest

from history.errors import ConfigurationError
from triggers.patchbay import read_patchbay
from triggers.patchbay.wiring.toml_writer import to_toml
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


def test_queues_topics_ports_and_redelivery_are_read(tmp_path: Path) -> None:
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
    assert (price.input[0].sources[0].provider, price.output[0].to[0].provider) == ("localdms", "sqldms")
    assert (wiring.message[0].family, wiring.message[0].type) == ("Commerce", "shop.order")


def test_what_has_no_counterpart_is_told() -> None:
    notes = "\n".join(from_xml(XML).notes)

    assert "supports-transactions left out" in notes
    assert "no-local left out" in notes
    assert "its url is a guess" in notes


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
        (XML.replace("failure-output-port>", "failure-port>"), "no <failure-output-port>"),
        (XML.replace("<nucleus-name>/shop/SubmitOrder</nucleus-name>", ""), "no <nucleus-name>"),
    ],
    ids=["entity", "external-entity", "unclosed", "other-root", "number", "failure-port", "nucleus-name"],
)
def test_what_cannot_be_used_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        from_xml(text)
