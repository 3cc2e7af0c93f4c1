"""``doubtless patchbay`` and ``doubtless sqljms``, from the original's XML to a repaired queue."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from history.bridge import drive
from history.message import Message
from tests.acceptance.in_process import InProcess
from tests.fixtures.monitoring import ask
from tests.fixtures.waiting import eventually
from triggers.providers.provider import Arrival
from triggers.providers.sqljms.provider import SqlJms
from triggers.testing.redis_server import free_port

XML = """<dynamo-message-system><patchbay>
<message-source><nucleus-name>/counter/Sell</nucleus-name>
  <output-port><output-destination><destination-name>orders</destination-name></output-destination></output-port>
</message-source>
<message-sink><nucleus-name>/counter/Book</nucleus-name>
  <input-port><port-name>in</port-name><input-destination><destination-name>orders</destination-name>
    <redelivery><max-attempts>2</max-attempts><delay>10</delay>
      <failure-output-port>failed</failure-output-port></redelivery>
  </input-destination></input-port>
  <redelivery-port><port-name>failed</port-name>
    <output-destination><destination-name>errors</destination-name></output-destination></redelivery-port>
</message-sink></patchbay></dynamo-message-system>
"""

COUNTER = """
from triggers import Message, TransientError
from triggers.patchbay import MessageContext

def Sell(context: MessageContext) -> None:
    context.send("DEFAULT", {"id": "N-1"}, uuid="good")
    context.send("DEFAULT", {"id": "N-2"}, uuid="bad")

def Book(port: str, message: Message) -> None:
    if message.uuid == "bad":
        raise TransientError("no stock")
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.sqlite3"


def test_the_xml_of_the_original_becomes_a_running_patch_bay(
    doubtless: InProcess, tmp_path: Path, url: str
) -> None:
    (tmp_path / "dynamo.xml").write_text(XML)
    (tmp_path / "counter.py").write_text(COUNTER)

    doubtless("patchbay", "convert", "dynamo.xml", "--provider", f"sqldms={url}", "-o", "bay.toml")
    wired = doubtless("patchbay", "check", "bay.toml", "--history", url, "--json").json["wires"]
    ran = doubtless("patchbay", "run", "bay.toml", "--history", url, "--until-idle", "2.5", "--json")

    assert [(one["component"], one["direction"], one["destination"]) for one in wired] == [
        ("/counter/Book", "in", "queue://orders"),
        ("/counter/Sell", "out", "queue://orders"),
        ("/counter/Book", "out", "queue://errors"),
    ]
    assert ran.json == [{"input": "/counter/Book.in.orders", "messages": 1, "ok": 1, "recovered": 2}]
    assert uuids(url, "errors") == ["bad"]


@pytest.mark.parametrize("receives", [True, False])
def test_a_patch_bay_answers_monitoring_and_logs_as_is_configured(
    doubtless: InProcess, tmp_path: Path, url: str, *, receives: bool
) -> None:
    sends_only = f"{XML.partition('<message-sink>')[0]}</patchbay></dynamo-message-system>"
    (tmp_path / "dynamo.xml").write_text(XML if receives else sends_only)
    (tmp_path / "places.toml").write_text(f"[providers.sqldms]\nurl = '{url}'")
    (tmp_path / "counter.py").write_text(COUNTER)
    port = free_port()
    (tmp_path / "doubtless.toml").write_text(f'metrics = "127.0.0.1:{port}"\nlog_format = "json"\n')
    words = ["patchbay", "run", "dynamo.xml", "places.toml", "--history", url, "--name", "counter-1"]

    with doubtless.start(*words) as process:
        try:
            eventually(lambda: ask(port, "/readyz")[0] == 200)
            if receives:
                eventually(lambda: 'verdict="new"} 3.0' in ask(port, "/metrics")[1])
            alive = ask(port, "/livez")[0]
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate()

    assert alive == 200
    logged = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert {(line["process"], line["consumer"]) for line in logged} == {(process.pid, "counter-1")}


def test_check_lists_what_is_not_taken_over_of_the_xml_and_run_warns_of_it(
    doubtless: InProcess, tmp_path: Path, url: str
) -> None:
    spread = "<message-source><nucleus-name>/counter/Silent</nucleus-name></message-source>"
    (tmp_path / "dynamo.xml").write_text(XML.replace("<message-sink>", f"{spread}<message-sink>"))
    (tmp_path / "places.toml").write_text(f"[providers.sqldms]\nurl = '{url}'")
    (tmp_path / "counter.py").write_text(COUNTER)
    files = ("dynamo.xml", "places.toml", "--history", url)
    left = "dynamo.xml, line 5: component /counter/Silent left out: it has no port that leads anywhere"

    shown = doubtless("patchbay", "check", *files)
    as_json = doubtless("patchbay", "check", *files, "--json").json
    ran = doubtless("patchbay", "run", *files, "--until-idle", "0.1")

    assert left in shown.err
    assert left in as_json["notes"]
    assert left in ran.err


def test_a_misspelt_element_is_one_line_and_code_2(doubtless: InProcess, tmp_path: Path) -> None:
    (tmp_path / "dynamo.xml").write_text(XML.replace("max-attempts>", "max-atempts>"))

    answer = doubtless("patchbay", "check", "dynamo.xml")

    assert answer.code == 2
    assert answer.error == (
        "error: dynamo.xml, line 7: <max-atempts> is unknown in <redelivery>; "
        "write <max-attempts>, or remove it"
    )


def test_a_wiring_that_cannot_work_is_one_line_and_code_2(doubtless: InProcess, tmp_path: Path) -> None:
    (tmp_path / "bay.toml").write_text('[[sink]]\nname = "book"\ncomponent = "counter:Book"\n')

    answer = doubtless("patchbay", "check", "bay.toml")

    assert (answer.code, answer.error) == (2, "error: bay.toml, line 1, sink.0.input: is missing; add it")


def test_a_failure_queue_is_looked_into_and_mended(doubtless: InProcess, url: str) -> None:
    jms = SqlJms.from_url(url)
    letters = [Message(body="x", uuid=uuid, properties={"doubtless_destination": "orders"}) for uuid in "abc"]
    drive(jms.send("queue://errors", letters))
    drive(jms.send("queue://orders", []))
    drive(jms.close())

    entries = doubtless("sqljms", "entries", "errors", "--provider", url, "--json").json
    first, second, _ = [str(one["id"]) for one in entries]
    requeued = doubtless(
        "sqljms", "requeue", "errors", first, "--to", "queue://orders", "--json", DOUBTLESS_PROVIDER=url
    )
    gone = doubtless("sqljms", "delete", "orders", second, "-y", DOUBTLESS_PROVIDER=url)

    assert [one["uuid"] for one in entries] == ["a", "b", "c"]
    assert [one["id"] for one in requeued.json] == [int(first)]
    assert (gone.code, gone.error) == (1, f"error: there is no message '{second}'")
    assert uuids(url, "orders") == ["a"]
    assert uuids(url, "errors") == ["b", "c"]


def uuids(url: str, queue: str) -> Sequence[str]:
    jms = SqlJms.from_url(url)
    receiver = drive(jms.open_receiver(f"queue://{queue}", subscription="test", name="test"))
    found = [one.message.uuid or "" for one in drive(receiver.receive(10)) if isinstance(one, Arrival)]
    drive(receiver.close())
    drive(jms.close())
    return found
