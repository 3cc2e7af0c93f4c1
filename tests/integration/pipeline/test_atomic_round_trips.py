"""What an atomic message asks the server for: little, and nothing of it lost where a connection had died."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.ext.asyncio import AsyncConnection

from history import EntryOutcome, SqlHistory, State
from history.bridge import drive
from history.errors import TransactionBrokenError
from tests.fixtures.waiting import eventually
from triggers import FatalError, Message, Outcome, Status, Trigger, trigger
from triggers.providers.sqljms.provider import SqlJms

INSERT = text("INSERT INTO bookings (uuid) VALUES (:uuid)")

QUEUE = "queue://orders"

#: A claim, the service's own statement, and the commit, with which the entry's end and the message's go.
WAITED_FOR = 3


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE bookings (uuid TEXT NOT NULL)")
        yield connection


@pytest.fixture
def history(postgres_url: str) -> Iterator[SqlHistory]:
    store = SqlHistory.from_url(postgres_url)
    yield store
    drive(store.close())


@pytest.fixture
def made(history: SqlHistory) -> Iterator[Callable[..., Trigger[..., Any]]]:
    """Return what makes a trigger of a service; all are closed at the end."""
    triggers: list[Trigger[..., Any]] = []

    def make(service: Callable[..., Any]) -> Trigger[..., Any]:
        triggers.append(trigger("orders", history=history, name="book", transacted=True)(service))
        return triggers[-1]

    yield make
    for one in triggers:
        one.close()


def book(message: Message, connection: Connection) -> int:
    connection.execute(INSERT, {"uuid": message.uuid})
    return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def booked(admin: psycopg.Connection) -> list[str]:
    return sorted(uuid for (uuid,) in admin.execute("SELECT uuid FROM bookings"))


def statements_of(history: SqlHistory) -> list[str]:
    """Return a list that grows with each statement whose answer somebody waits for."""
    seen: list[str] = []
    engine = history._engine  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (nobody else has it)
    assert isinstance(engine, Engine)

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    return seen


def test_a_lone_message_waits_for_three_answers(
    admin: psycopg.Connection, history: SqlHistory, made: Callable[..., Trigger[..., Any]]
) -> None:
    def insert(message: Message, connection: Connection) -> None:
        connection.execute(INSERT, {"uuid": message.uuid})

    inserting = made(insert)
    inserting.handle(Message(body="", uuid="first"))
    seen = statements_of(history)

    assert inserting.handle(Message(body="", uuid="second")).status is Status.NEW
    assert len(seen) == WAITED_FOR, seen
    assert booked(admin) == ["first", "second"]


@pytest.fixture
def queue(postgres_url: str) -> Iterator[Callable[[Trigger[..., Any]], Outcome]]:
    """Return what sends a message to a queue of the same database, and has a trigger handle it."""
    provider = SqlJms.from_url(postgres_url)
    receiver = drive(provider.open_receiver(QUEUE, subscription="book", name="one"))
    sent = 0

    def deliver(one: Trigger[..., Any]) -> Outcome:
        nonlocal sent
        drive(provider.send(QUEUE, [Message(body="", uuid=f"u{sent}")]))
        sent += 1
        (outcome,) = drive(one.pipeline().deliver(receiver, drive(receiver.receive(1))))
        return outcome

    yield deliver
    drive(receiver.close())
    drive(provider.close())


def test_a_lone_message_of_sql_jms_waits_for_as_many(
    admin: psycopg.Connection,
    history: SqlHistory,
    made: Callable[..., Trigger[..., Any]],
    queue: Callable[[Trigger[..., Any]], Outcome],
) -> None:
    def insert(message: Message, connection: Connection) -> None:
        connection.execute(INSERT, {"uuid": message.uuid})

    inserting = made(insert)
    queue(inserting)
    seen = statements_of(history)

    assert queue(inserting).status is Status.NEW
    assert len(seen) == WAITED_FOR, seen
    assert admin.execute("SELECT COUNT(*) FROM dms_queue_entry").fetchone() == (0,)
    assert booked(admin) == ["u0", "u1"]


def test_where_a_message_was_given_to_somebody_else_meanwhile_nothing_is_committed(
    admin: psycopg.Connection,
    history: SqlHistory,
    made: Callable[..., Trigger[..., Any]],
    queue: Callable[[Trigger[..., Any]], Outcome],
) -> None:
    def lose(message: Message, connection: Connection) -> None:
        connection.execute(INSERT, {"uuid": message.uuid})
        admin.execute("UPDATE dms_queue_entry SET read_state = read_state + 1")

    outcome = queue(made(lose))

    assert (outcome.executed, outcome.acknowledge, outcome.suspend) == (True, False, False)
    assert booked(admin) == []
    assert drive(history.lookup("book", ["u0"])) == [None]
    assert admin.execute("SELECT COUNT(*) FROM dms_queue_entry").fetchone() == (1,)


def test_where_an_entry_cannot_be_completed_nothing_is_committed(
    admin: psycopg.Connection,
    history: SqlHistory,
    made: Callable[..., Trigger[..., Any]],
    queue: Callable[[Trigger[..., Any]], Outcome],
) -> None:
    def forget(message: Message, connection: Connection) -> None:
        connection.execute(INSERT, {"uuid": message.uuid})
        connection.execute(text("DELETE FROM doubtless_history"))

    outcome = queue(made(forget))

    assert (outcome.executed, outcome.parked, outcome.suspend) == (True, True, False)
    assert isinstance(outcome.error, TransactionBrokenError)
    assert booked(admin) == []
    (entry,) = drive(history.lookup("book", ["u0"]))
    assert entry is not None
    assert entry.outcome is EntryOutcome.FAILED
    assert admin.execute("SELECT COUNT(*) FROM dms_queue_entry").fetchone() == (0,)


def test_after_a_connection_that_a_service_ended_each_message_has_a_transaction_of_its_own(
    admin: psycopg.Connection, made: Callable[..., Trigger[..., Any]]
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
    assert booked(admin) == ["a", "c"]


def test_a_connection_that_died_in_the_pool_is_replaced_and_the_message_runs(
    admin: psycopg.Connection, made: Callable[..., Trigger[..., Any]]
) -> None:
    booking = made(book)
    backend = booking.handle(Message(body="", uuid="before")).result
    admin.execute("SELECT pg_terminate_backend(%s)", (backend,))
    gone = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %s"
    eventually(lambda: admin.execute(gone, (backend,)).fetchone() == (0,))

    outcome = booking.handle(Message(body="", uuid="after"))

    assert (outcome.status, outcome.acknowledge, outcome.suspend) == (Status.NEW, True, False)
    assert booked(admin) == ["after", "before"]


def test_a_connection_that_dies_while_the_service_runs_is_not_replaced(
    admin: psycopg.Connection, made: Callable[..., Trigger[..., Any]]
) -> None:
    runs: list[str] = []

    def interrupted(message: Message, connection: Connection) -> None:
        runs.append(message.uuid or "")
        backend = book(message, connection)
        admin.execute("SELECT pg_terminate_backend(%s)", (backend,))

    outcome = made(interrupted).handle(Message(body="", uuid="a"))

    assert runs == ["a"]
    assert not outcome.acknowledge
    assert booked(admin) == []


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"])
def test_a_service_that_ends_its_transaction_behind_our_back_is_not_completed(
    admin: psycopg.Connection, history: SqlHistory, made: Callable[..., Trigger[..., Any]], ending: str
) -> None:
    def end(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.execute(ending)

    outcome = made(end).handle(Message(body="", uuid="a"))

    assert (outcome.status, outcome.parked, outcome.suspend) == (Status.IN_DOUBT, True, False)
    entry = drive(history.lookup("book", ["a"]))[0]
    assert entry is not None
    assert entry.state is State.STARTED


def test_what_one_service_of_a_batch_did_is_undone_alone(
    admin: psycopg.Connection, made: Callable[..., Trigger[..., Any]]
) -> None:
    def picky(message: Message, connection: Connection) -> None:
        connection.execute(INSERT, {"uuid": message.uuid})
        if message.uuid in {"a", "c"}:
            raise FatalError(message.uuid)

    outcomes = made(picky).handle_batch([Message(body="", uuid=uuid) for uuid in "abcd"])

    assert [outcome.acknowledge for outcome in outcomes] == [False, True, False, True]
    assert booked(admin) == ["b", "d"]


def test_a_services_queries_are_planned_freely_and_the_historys_are_not(
    admin: psycopg.Connection, history: SqlHistory, made: Callable[..., Trigger[..., Any]]
) -> None:
    seen: list[str] = []

    def look(connection: Connection) -> None:
        seen.append(str(connection.execute(text("SHOW enable_seqscan")).scalar_one()))

    looking = made(look)

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
    del admin
