"""A process is killed inside a local sink: its sender's message is not completed, and nothing is lost."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from history import ParkedKind
from tests.fixtures.databases import asked
from tests.fixtures.histories import with_store
from tests.fixtures.proof import Proved
from tests.fixtures.waiting import PATIENCE

pytestmark = pytest.mark.crash

WIRING = """<?xml version="1.0"?>
<dynamo-message-system><patchbay>
  <message-source><nucleus-name>shop</nucleus-name>
    <output-port><output-destination><destination-name>sqldms:/orders</destination-name>
      <destination-type>Queue</destination-type></output-destination></output-port></message-source>
  <message-sink><nucleus-name>booking</nucleus-name>
    <input-port><input-destination><destination-name>localdms:/local/Book</destination-name>
      <destination-type>Queue</destination-type></input-destination></input-port></message-sink>
  <message-filter><nucleus-name>checking</nucleus-name>
    <input-port><input-destination><destination-name>sqldms:/orders</destination-name>
      <destination-type>Queue</destination-type></input-destination></input-port>
    <output-port><port-name>OUT</port-name><output-destination>
      <destination-name>localdms:/local/Book</destination-name>
      <destination-type>Queue</destination-type></output-destination></output-port></message-filter>
</patchbay></dynamo-message-system>
"""

PLACES = """
[patchbay]
history = "{url}"
[providers]
sqldms = {{ url = "{url}?lease=0.4&poll_interval=0.05" }}
"""

COMPONENTS = """
import os, signal
from pathlib import Path
from sqlalchemy import Connection, text
from history.message import Message
from triggers.patchbay import MessageContext

def silent(context: MessageContext) -> None: ...

def check(message: Message, context: MessageContext) -> None:
    context.send("OUT", {"of": message.uuid})

def check_atomically(message: Message, connection: Connection, context: MessageContext) -> None:
    context.send("OUT", {"of": message.uuid})

def book(message: Message) -> None:
    die_once()
    Path("booked").open("a").write("x")

def book_atomically(message: Message, connection: Connection) -> None:
    connection.execute(text("INSERT INTO effects (uuid) VALUES ('x')"))
    die_once()

def die_once() -> None:
    if not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""

RUN = """
from datetime import timedelta
from triggers.consumer import worker
from triggers.patchbay import PatchBay, read_patchbay
worker.RECEIVE_WAIT = timedelta(seconds=0.05)
with PatchBay(read_patchbay("shop.xml", "places.toml")) as bay:
    bay.run(until_idle=1.0)
"""


class Shop:
    """A filter over SQL-JMS and a local sink, in a folder of their own."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/shop.sqlite3"
        wiring = WIRING.replace(">checking<", f">/parts/check{suffix}<").replace(
            ">booking<", f">/parts/book{suffix}<"
        )
        (folder / "shop.xml").write_text(wiring.replace(">shop<", ">/parts/silent<"))
        (folder / "places.toml").write_text(PLACES.format(url=self.url))
        (folder / "parts.py").write_text(COMPONENTS)
        self.rows("CREATE TABLE effects (uuid TEXT)")

    def rows(self, query: str) -> Sequence[tuple[object, ...]]:
        return asked(self.url, query)

    def run(self) -> int:
        ran = subprocess.run([sys.executable, "-c", RUN], cwd=self.folder, timeout=PATIENCE, check=False)
        return ran.returncode

    @property
    def waiting(self) -> int:
        [(count,)] = self.rows("SELECT COUNT(*) FROM dms_queue_entry")
        assert isinstance(count, int)
        return count


@pytest.fixture
def make_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Shop]:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{tmp_path}")
    return Shop


def send(shop: Shop, uuid: str) -> None:
    script = (
        "from triggers.patchbay import PatchBay, read_patchbay\n"
        "with PatchBay(read_patchbay('shop.xml', 'places.toml')) as bay:\n"
        f"    bay.context('/parts/silent').send('DEFAULT', 'hello', uuid='{uuid}')\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=shop.folder, timeout=PATIENCE, check=True)


def test_killed_in_a_local_sink_the_message_of_its_sender_is_kept_for_a_person(
    make_shop: type[Shop], tmp_path: Path, proved: Proved
) -> None:
    proved(processes_killed=1)
    shop = make_shop(tmp_path, "")
    send(shop, "order-1")

    assert (shop.run(), shop.waiting) == (-9, 1)
    assert shop.run() == 0

    parked = with_store(shop.url, lambda store: store.parking.list())
    assert [(one.uuid, one.kind) for one in parked] == [("order-1", ParkedKind.IN_DOUBT)]
    assert not (tmp_path / "booked").exists()


def test_killed_in_a_local_sink_of_an_atomic_sender_everything_runs_again_once(
    make_shop: type[Shop], tmp_path: Path, proved: Proved
) -> None:
    proved(processes_killed=1)
    shop = make_shop(tmp_path, "_atomically")
    send(shop, "order-1")

    assert shop.run() == -9
    assert (shop.waiting, shop.rows("SELECT * FROM effects")) == (1, [])
    assert shop.run() == 0

    assert (shop.waiting, shop.rows("SELECT * FROM effects")) == (0, [("x",)])
