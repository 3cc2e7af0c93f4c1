"""An atomic message needs few round trips, and loses nothing if its connection had died."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.ext.asyncio import AsyncConnection

from history import EntryOutcome, SqlHistory
from history.bridge import drive
from history.errors import TransactionBrokenError
from tests.fixtures.waiting import eventually
from tests.integration.helpers.atomic_shop import Make, Shop, insert, shop_at
from triggers import Message, Outcome, Status, Trigger
from triggers.providers.sqljms.provider import SqlJms

QUEUE = "queue://orders"

#: A claim, the service's statement, and the commit. The commit also completes the entry and the message.
WAITED_FOR = 3


#: Lets a trigger handle the next message of the queue.
Deliver = Callable[[Trigger[..., Any]], Outcome]


@pytest.fixture
def shop(postgres_url: str) -> Iterator[Shop]:
    with shop_at(postgres_url) as shop:
        yield shop


@pytest.fixture
def admin(shop: Shop) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def history(shop: Shop) -> Iterator[SqlHistory]:
    store = SqlHistory.from_url(shop.url)
    yield store
    drive(store.close())


def book(message: Message, connection: Connection) -> int:
    insert(message, connection)
    return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def statements_of(history: SqlHistory) -> list[str]:
    """Return a list that grows with each statement for which the caller waits."""
    seen: list[str] = []
    engine = history._engine  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (nobody else has it)
    assert isinstance(engine, Engine)

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    return seen


def test_a_lone_message_waits_for_three_answers(shop: Shop, history: SqlHistory, made: Make) -> None:
    inserting = made(insert, history=history)
    inserting.handle(Message(body="", uuid="first"))
    seen = statements_of(history)

    assert inserting.handle(Message(body="", uuid="second")).status is Status.NEW
    assert len(seen) == WAITED_FOR, seen
    assert shop.booked() == ["first", "second"]


@pytest.fixture
def queue(postgres_url: str) -> Iterator[Deliver]:
    """Return a function that sends a message to a queue of the same database and lets a trigger handle it."""
    provider = SqlJms.from_url(postgres_url)
    receiver = drive(provider.open_receiver(QUEUE, subscription="book", name="one"))
    numbers = count()

    def deliver(one: Trigger[..., Any]) -> Outcome:
        drive(provider.send(QUEUE, [Message(body="", uuid=f"u{next(numbers)}")]))
        (outcome,) = drive(one.pipeline().deliver(receiver, drive(receiver.receive(1))))
        return outcome

    yield deliver
    drive(receiver.close())
    drive(provider.close())


def waiting(admin: psycopg.Connection) -> int:
    (number,) = admin.execute("SELECT COUNT(*) FROM dms_queue_entry").fetchone() or (-1,)
    return int(number)


def test_a_lone_message_of_sql_jms_waits_for_as_many(
    shop: Shop, admin: psycopg.Connection, history: SqlHistory, made: Make, queue: Deliver
) -> None:
    inserting = made(insert, history=history)
    queue(inserting)
    seen = statements_of(history)

    assert queue(inserting).status is Status.NEW
    assert len(seen) == WAITED_FOR, seen
    assert (waiting(admin), shop.booked()) == (0, ["u0", "u1"])


def test_where_a_message_was_given_to_somebody_else_meanwhile_nothing_is_committed(
    shop: Shop, admin: psycopg.Connection, made: Make, queue: Deliver
) -> None:
    def lose(message: Message, connection: Connection) -> None:
        insert(message, connection)
        admin.execute("UPDATE dms_queue_entry SET read_state = read_state + 1")

    outcome = queue(made(lose))

    assert (outcome.executed, outcome.acknowledge, outcome.suspend) == (True, False, False)
    assert (shop.booked(), shop.entry("u0"), waiting(admin)) == ([], None, 1)


def test_where_an_entry_cannot_be_completed_nothing_is_committed(
    shop: Shop, admin: psycopg.Connection, made: Make, queue: Deliver
) -> None:
    def forget(message: Message, connection: Connection) -> None:
        insert(message, connection)
        connection.execute(text("DELETE FROM doubtless_history"))

    outcome = queue(made(forget))

    assert (outcome.executed, outcome.parked, outcome.suspend) == (True, True, False)
    assert isinstance(outcome.error, TransactionBrokenError)
    assert (shop.booked(), shop.outcome("u0"), waiting(admin)) == ([], EntryOutcome.FAILED, 0)


def test_after_a_connection_that_a_service_ended_each_message_has_a_transaction_of_its_own(
    shop: Shop, admin: psycopg.Connection, made: Make
) -> None:
    runs: list[str | None] = []

    def interrupted(message: Message, connection: Connection) -> None:
        runs.append(message.uuid)
        backend = book(message, connection)
        if message.uuid == "b":
            admin.execute("SELECT pg_terminate_backend(%s)", (backend,))

    outcomes = made(interrupted).handle_batch([Message(body="", uuid=uuid) for uuid in "abc"])

    assert runs == ["a", "b", "a", "b", "c"]
    assert [one.acknowledge for one in outcomes] == [True, False, True]
    assert not any(one.suspend for one in outcomes)
    assert shop.booked() == ["a", "c"]


def test_a_connection_that_died_in_the_pool_is_replaced_and_the_message_runs(
    shop: Shop, admin: psycopg.Connection, made: Make
) -> None:
    booking = made(book)
    backend = booking.handle(Message(body="", uuid="before")).result
    admin.execute("SELECT pg_terminate_backend(%s)", (backend,))
    gone = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %s"
    eventually(lambda: admin.execute(gone, (backend,)).fetchone() == (0,))

    outcome = booking.handle(Message(body="", uuid="after"))

    assert (outcome.status, outcome.acknowledge, outcome.suspend) == (Status.NEW, True, False)
    assert shop.booked() == ["after", "before"]


def test_a_connection_that_dies_while_the_service_runs_is_not_replaced(
    shop: Shop, admin: psycopg.Connection, made: Make
) -> None:
    runs: list[str] = []

    def interrupted(message: Message, connection: Connection) -> None:
        runs.append(message.uuid or "")
        backend = book(message, connection)
        admin.execute("SELECT pg_terminate_backend(%s)", (backend,))

    outcome = made(interrupted).handle(Message(body="", uuid="a"))

    assert runs == ["a"]
    assert not outcome.acknowledge
    assert shop.booked() == []


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"])
def test_a_service_that_ends_its_transaction_behind_our_back_is_not_completed(
    shop: Shop, made: Make, ending: str
) -> None:
    def end(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.execute(ending)

    outcome = made(end).handle(Message(body="", uuid="a"))

    assert (outcome.status, outcome.parked, outcome.suspend) == (Status.IN_DOUBT, True, False)
    assert shop.outcome("a") is None
    assert shop.entry("a") is not None


def test_a_services_queries_are_planned_freely_and_the_historys_are_not(
    history: SqlHistory, made: Make
) -> None:
    seen: list[str] = []

    def look(connection: Connection) -> None:
        seen.append(str(connection.execute(text("SHOW enable_seqscan")).scalar_one()))

    looking = made(look, history=history)

    looking.handle_batch([Message(body="", uuid=uuid) for uuid in "ab"])
    looking.handle_batch([Message(body="", uuid=uuid) for uuid in "abc"])

    async def after() -> str:
        async with await history.transaction(lean=True) as transaction:
            transaction.expect()
            await transaction.history.lookup("book", ["a"])
            transaction.resume()
            connection = transaction.connection
            assert not isinstance(connection, AsyncConnection)
            return str(connection.execute(text("SHOW enable_seqscan")).scalar_one())

    assert seen == ["on", "on", "on"]
    assert drive(after()) == "off"
