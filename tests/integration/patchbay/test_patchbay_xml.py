"""A Patch Bay run from the original's XML, on SQL-JMS."""

from pathlib import Path

from history.bridge import drive
from history.message import Message
from tests.fixtures.databases import asked
from tests.integration.patchbay.components import forget, seen
from triggers.patchbay import PatchBay, read_patchbay
from triggers.providers.sqljms import SqlJms

XML = """<dynamo-message-system><patchbay><message-sink>
  <nucleus-name>/tests/integration/patchbay/components/service</nucleus-name>
  <input-port><port-name>PLAIN</port-name><input-destination>
    <destination-name>sqldms:/Plain</destination-name><destination-type>Topic</destination-type>
  </input-destination></input-port>
  <input-port><port-name>LASTING</port-name><input-destination>
    <destination-name>sqldms:/Lasting</destination-name><destination-type>Topic</destination-type>
    <durable-subscriber-name>Book</durable-subscriber-name>
  </input-destination></input-port>
</message-sink></patchbay></dynamo-message-system>"""


def test_a_topic_without_a_durable_subscriber_keeps_nothing_while_nobody_receives(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.sqlite3"
    (tmp_path / "bay.xml").write_text(XML)
    (tmp_path / "bay.toml").write_text(
        f"[patchbay]\nhistory = '{url}'\n[providers.sqldms]\nurl = '{url}?poll_interval=0.05'"
    )
    file = read_patchbay(tmp_path / "bay.xml", tmp_path / "bay.toml")
    forget()

    with PatchBay(file) as bay:
        bay.run(until_idle=0.2)
    provider = SqlJms.from_url(url)
    for topic in ("Plain", "Lasting"):
        drive(provider.send(f"topic://{topic}", [Message(uuid=topic, body="while nobody receives")]))
    drive(provider.close())

    assert asked(url, "SELECT COUNT(*) FROM dms_topic_entry") == [(1,)]
    with PatchBay(file) as bay:
        bay.run(until_idle=0.2)
    assert [message.uuid for _, message in seen("service")] == ["Lasting"]
