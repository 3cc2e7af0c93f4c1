"""Local destinations: their sinks run in the thread and the transaction of the sender."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from history import ConfigurationError, Message
from tests.fixtures.databases import asked
from tests.fixtures.histories import with_store
from tests.integration.patchbay.components import seen
from triggers import FatalError, TransientError
from triggers.patchbay import MessageContext, PatchBay, read_patchbay
from triggers.patchbay.wiring.toml_reader import read_with_notes

HERE = "tests.integration.patchbay.test_local"

#: The errors that the sink raises, one for each message. Then it succeeds.
FAILURES: list[Exception] = []
THREADS: list[str] = []


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, fresh_components: None) -> None:
    FAILURES.clear()
    THREADS.clear()


def silent(_context: MessageContext) -> None:
    """Send nothing by itself."""


def forward(message: Message, context: MessageContext) -> None:
    seen("filter").append(("", message))
    THREADS.append(threading.current_thread().name)
    context.send("OUT", {"of": message.uuid})


def forward_atomically(message: Message, connection: Connection, context: MessageContext) -> None:
    """Write an effect and send on, in one transaction."""
    seen("filter").append(("", message))
    note(connection, "filter")
    context.send("OUT", {"of": message.uuid})


def forward_anyway(message: Message, connection: Connection, context: MessageContext) -> None:
    """Write an effect, and go on if the sink fails."""
    note(connection, "filter")
    try:
        context.send("OUT", {"of": message.uuid})
    except FatalError:
        note(connection, "fallback")


async def aforward(message: Message, context: MessageContext) -> None:
    seen("filter").append(("", message))
    await context.asend("OUT", {"of": message.uuid})


def sink(message: Message) -> None:
    seen("sink").append(("", message))
    THREADS.append(threading.current_thread().name)
    if FAILURES:
        raise FAILURES.pop(0)


async def asink(message: Message) -> None:
    await asyncio.sleep(0)
    sink(message)


def book(message: Message, connection: Connection) -> None:
    note(connection, "sink")
    sink(message)


def book_in_session(message: Message, session: Session) -> None:
    session.execute(text("INSERT INTO effects (name) VALUES ('sink')"))
    sink(message)


def relay(message: Message, context: MessageContext) -> None:
    """Send on to SQL-JMS in the current transaction, if there is one. Then fail as the test says."""
    context.send("OUT", {"relayed": True}, uuid="relayed")
    sink(message)


def note(connection: Connection, name: str) -> None:
    connection.execute(text("INSERT INTO effects (name) VALUES (:name)"), {"name": name})


WIRING = """
[patchbay]
history = "{database}"
default_provider = "main"
[providers]
main = {{ url = "{database}{mark}poll_interval=0.02" }}
local = {{ url = "local://" }}

[[source]]
name = "shop"
component = "{here}:silent"
[[source.output]]
to = ["orders"]
[[source.output]]
port = "LOCAL"
to = [{{ destination = "booked", provider = "local", type = "{type}" }}]

[[filter]]
name = "filter"
component = "{here}:{filter}"
[[filter.input]]
from = [{{ destination = "orders", redelivery = {{ failure_port = "F", max_attempts = 3, delay = 0 }} }}]
[[filter.output]]
port = "OUT"
to = [{{ destination = "booked", provider = "local", type = "{type}" }}]
[[filter.redelivery_port]]
port = "F"
to = ["dead"]

[[sink]]
name = "sink"
component = "{here}:{sink}"
[[sink.input]]
from = [{{ destination = "booked", provider = "local", type = "{type}"{more} }}]
[[sink.output]]
port = "OUT"
to = ["relayed"]
"""


class Shop:
    """A filter over SQL-JMS that sends to a local sink, all in one database."""

    def __init__(self, folder: Path, database: str) -> None:
        self.file = folder / "patchbay.toml"
        self.database = database
        self.rows("CREATE TABLE effects (name TEXT)")

    def wire(
        self,
        *,
        filter: str = "forward",  # noqa: A002  (as in the file)
        sink: str = "sink",
        type: str = "queue",  # noqa: A002  (as in the file)
        more: str = "",
    ) -> None:
        mark = "&" if "?" in self.database else "?"
        self.file.write_text(
            WIRING.format(
                database=self.database, mark=mark, here=HERE, filter=filter, sink=sink, type=type, more=more
            )
        )

    def send(self, uuid: str, port: str = "DEFAULT") -> None:
        with PatchBay(read_patchbay(self.file)) as bay:
            bay.context("shop").send(port, "hello", uuid=uuid)

    def run(self) -> None:
        with PatchBay(read_patchbay(self.file)) as bay:
            bay.run(until_idle=0.4)

    def rows(self, query: str) -> Sequence[tuple[object, ...]]:
        return asked(self.database, query)

    @property
    def effects(self) -> list[str]:
        return sorted(str(name) for (name,) in self.rows("SELECT name FROM effects"))

    def waiting(self, queue: str) -> int:
        told = "SELECT COUNT(*) FROM dms_queue_entry AS e JOIN dms_queue AS q ON q.queue_id = e.queue_id"
        [(count,)] = self.rows(f"{told} WHERE q.queue_name = '{queue}'")
        assert isinstance(count, int)
        return count

    def entry(self, uuid: str) -> str | None:
        [found] = with_store(self.database, lambda store: store.lookup("filter.DEFAULT.orders", [uuid]))
        return None if found is None else f"{found.state} {found.outcome}"


@pytest.fixture
def shop(tmp_path: Path, sql_database: str) -> Shop:
    return Shop(tmp_path, sql_database)


def test_a_sink_runs_in_the_thread_of_its_sender_before_the_send_returns(shop: Shop) -> None:
    shop.wire()
    shop.send("a")

    shop.run()

    ((_, message),) = seen("sink")
    assert (message.body, message.destination, message.delivery_count) == ({"of": "a"}, "booked", 1)
    assert message.message_id is not None
    assert len(set(THREADS)) == 1
    assert shop.waiting("orders") == 0


def test_what_a_sink_raises_reaches_the_sender_and_its_message_is_tried_again(shop: Shop) -> None:
    shop.wire()
    FAILURES.append(TransientError("the warehouse is away"))
    shop.send("a")

    shop.run()

    assert [message.uuid for _, message in seen("filter")] == ["a", "a"]
    assert len(seen("sink")) == 2
    assert (shop.waiting("orders"), shop.waiting("dead")) == (0, 0)


def test_a_source_hears_of_a_failure_too(shop: Shop) -> None:
    shop.wire()
    FAILURES.append(FatalError("no such customer"))

    with pytest.raises(FatalError, match="no such customer"):
        shop.send("a", "LOCAL")


@pytest.mark.parametrize("service", ["book", "book_in_session"])
def test_the_sink_is_a_part_of_the_transaction_of_its_sender(shop: Shop, service: str) -> None:
    shop.wire(filter="forward_atomically", sink=service)
    FAILURES.append(TransientError("for now"))
    shop.send("a")

    shop.run()

    assert len(seen("filter")) == 2
    assert shop.effects == ["filter", "sink"], "the first attempt left nothing"


def test_what_a_failed_sink_wrote_is_undone_where_its_sender_goes_on(shop: Shop) -> None:
    shop.wire(filter="forward_anyway", sink="book")
    FAILURES.append(FatalError("no such customer"))
    shop.send("a")

    shop.run()

    assert shop.effects == ["fallback", "filter"]


@pytest.mark.parametrize(("failures", "relayed"), [(0, 1), (1, 1), (3, 0)])
def test_what_a_local_sink_sends_is_a_part_of_the_transaction_too(
    shop: Shop, failures: int, relayed: int
) -> None:
    shop.wire(filter="forward_atomically", sink="relay")
    FAILURES.extend([TransientError("for now")] * failures)
    shop.send("a")

    shop.run()

    assert (shop.waiting("relayed"), shop.waiting("dead")) == (relayed, 1 - relayed)
    assert shop.effects == ["filter"] * relayed


def test_a_sink_that_needs_a_transaction_is_refused_where_its_sender_has_none(shop: Shop) -> None:
    shop.wire(sink="book")

    with pytest.raises(ConfigurationError, match="its sender has no transaction"):
        shop.send("a", "LOCAL")


def test_under_asyncio_the_sink_is_awaited(shop: Shop) -> None:
    shop.wire(filter="aforward", sink="asink")
    FAILURES.append(TransientError("for now"))
    shop.send("a")

    shop.run()

    assert (len(seen("filter")), len(seen("sink"))) == (2, 2)
    assert shop.waiting("orders") == 0


def test_a_coroutine_cannot_be_called_by_a_sender_that_blocks(shop: Shop) -> None:
    shop.wire(sink="asink")

    with pytest.raises(ConfigurationError, match="is a coroutine function, and its sender blocks"):
        shop.send("a", "LOCAL")


def test_a_queue_refuses_what_no_sink_takes_and_a_topic_does_not(shop: Shop) -> None:
    more = """, selector = "colour = 'red'" """
    shop.wire(more=more)
    with pytest.raises(ConfigurationError, match="no sink of this file takes the message"):
        shop.send("a", "LOCAL")

    shop.wire(more=more, type="topic")
    shop.send("a", "LOCAL")

    assert seen("sink") == []


def test_redelivery_of_a_local_input_is_refused(shop: Shop) -> None:
    shop.wire(more=', redelivery = { failure_port = "F" }')
    wiring = shop.file.read_text() + '[[sink.redelivery_port]]\nport = "F"\nto = ["dead"]\n'
    shop.file.write_text(wiring)

    with pytest.raises(ConfigurationError, match="a local destination has no redelivery"):
        read_patchbay(shop.file)


def test_the_check_names_what_holds_less_than_it_seems(shop: Shop) -> None:
    shop.wire()
    with_settings = shop.file.read_text().replace(
        f'component = "{HERE}:sink"', f'component = "{HERE}:sink"\nhistory = "sqlite:///other.db"'
    )
    memory = '\n[providers.cache]\nurl = "memory://"\n'
    shop.file.write_text(with_settings + memory)

    _, notes = read_with_notes(shop.file)

    assert [note.partition(":")[0] for note in notes] == [
        "provider cache is in memory",
        "shop, port LOCAL, to booked",
        "sink, port DEFAULT, from booked",
    ]
