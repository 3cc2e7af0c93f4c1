"""Some rows are not valid messages. Each row is run or parked, and the good rows run once."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from history import Message, ParkedKind, SqlHistory, Uuid
from history.bridge import drive
from history.sql.database.engine import open_engine
from tests.fixtures.scale import sized
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Running
from triggers import Consumer, on_retrieval_failure, trigger
from triggers.events import Cause, RetrievalFailureEvent
from triggers.providers import Arrival, Unreadable
from triggers.providers.sqljms.admin.admin import Admin
from triggers.providers.sqljms.destinations import Destination, DestinationKind
from triggers.providers.sqljms.limbo.limbo import Again, Delayed, Limbo
from triggers.providers.sqljms.link import SqlLink
from triggers.providers.sqljms.provider import SqlJms
from triggers.providers.sqljms.receiving.pinning import Pins, attach, messages, numbers, pin, take_over
from triggers.providers.sqljms.receiving.receiver import received_of

#: The number of odd rows: in a normal run, and in ``make prove``.
HOSTILE = [100, pytest.param(sized(500, full=5000), marks=pytest.mark.prove)]

DEEP = "[" * 100_000

#: Changes to the message :id that both databases accept, with their parameters.
ANYWHERE: Sequence[tuple[str, dict[str, Any]]] = [
    (f"UPDATE {table} SET {change} WHERE msg_id = :id", told)  # noqa: S608  (ours)
    for table, change, told in (
        ("dms_msg", "timestamp = 4611686018427387904", {}),
        ("dms_msg", "timestamp = -4611686018427387904", {}),
        ("dms_msg", "timestamp = NULL", {}),
        ("dms_msg", "expiration = 9223372036854775807", {}),
        ("dms_msg", "delivery_time = 9223372036854775807", {}),
        ("dms_msg", "priority = 99", {}),
        ("dms_msg", "priority = -1", {}),
        ("dms_msg", "delivery_mode = 7", {}),
        ("dms_msg", "msg_class = 'MapMessage'", {}),
        ("dms_msg", "msg_class = NULL, small_body = NULL", {}),
        ("dms_msg", "msg_class = 'TextMessage', small_body = :body", {"body": b"\xff\xfe"}),
        ("dms_msg", "msg_class = 'ObjectMessage', small_body = :body", {"body": b"{"}),
        ("dms_msg", "msg_class = 'ObjectMessage', small_body = :body", {"body": DEEP.encode()}),
        ("dms_msg", "uuid = '', message_id = '', destination_name = NULL", {}),
        ("dms_msg", "uuid = :text", {"text": "u" * 1_000_000}),
        ("dms_msg", "correlation_id = :text", {"text": "c" * 1_000_000}),
        ("dms_queue_entry", "delivery_count = -5", {}),
        ("dms_queue_entry", "delivery_count = 2000000000", {}),
        ("dms_queue_entry", "priority = 10", {}),
        ("dms_queue_entry", "priority = -1", {}),
    )
]

#: Rows of properties that both databases accept.
PROPERTIES: Sequence[tuple[Any, Any, Any]] = [
    (77, "a", "b"),
    (-1, "a", "b"),
    (None, "a", "b"),
    (4, "a", "no number"),
    (4, "a", "9" * 6000),
    (2, "a", "300"),
    (1, "a", "perhaps"),
    (7, "a", "1,5"),
    (9, "a", DEEP),
    (9, "a", "no JSON"),
    (8, "JMSXGroupSeq", "third"),
    (8, "uuid", "another"),
    (3, "a", None),
]

#: Changes that only SQLite accepts, because its columns have no types.
SQLITE: Sequence[tuple[str, dict[str, Any]]] = [
    (f"UPDATE dms_msg SET {column} = {value} WHERE msg_id = :id", {})  # noqa: S608  (ours)
    for column in (
        *("small_body", "timestamp", "expiration", "delivery_time", "priority", "delivery_mode"),
        *("msg_class", "uuid", "message_id", "correlation_id", "type"),
        *("destination_name", "reply_to_name"),
    )
    for value in (
        "'2024-05-01T12:00:00Z' || msg_id",
        "x'00fffe'",
        "CAST(x'c328' AS TEXT)",
        "1.5e300",
        "'high' || msg_id",
    )
    # Two rows with one uuid would be a message and its duplicate.
    if (column, value) not in {("uuid", "1.5e300"), ("message_id", "1.5e300")}
]

SQLITE_PROPERTIES: Sequence[tuple[Any, Any, Any]] = [
    (8, "a", b"\xff\x00"),
    (8, b"\xff\x00", "a"),
    ("text", "a", "b"),
    (b"\x01", "a", "b"),
]


@pytest.fixture
def url(sql_database: str) -> str:
    return sql_database


def engine_of(url: str) -> Engine:
    return create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


def spoil(connection: Connection, number: int, chance: Random) -> None:
    """Damage a row in one way, or in two ways."""
    sqlite = connection.dialect.name == "sqlite"
    statements = [*ANYWHERE, *(SQLITE if sqlite else ())]
    properties = [*PROPERTIES, *(SQLITE_PROPERTIES if sqlite else ())]
    for _ in range(chance.choice([1, 1, 2])):
        if chance.random() < 0.7:
            statement, values = chance.choice(statements)
            connection.execute(text(statement), {"id": number, **values})
        else:
            kind, name, value = chance.choice(properties)
            told = {"id": number, "kind": kind, "name": name, "value": value}
            connection.execute(text("UPDATE dms_msg SET has_properties = 1 WHERE msg_id = :id"), told)
            insert = "INSERT INTO dms_msg_properties (msg_id, data_type, name, value) VALUES"
            connection.execute(text(f"{insert} (:id, :kind, :name, :value) ON CONFLICT DO NOTHING"), told)


def fill(url: str, destination: str, *, hostile: int, seed: int) -> tuple[list[str], list[int]]:
    """Send a mix of good messages and odd rows. Return the good uuids, and the numbers of the odd rows."""
    chance, provider = Random(seed), SqlJms.from_url(url)  # noqa: S311  (to be repeated, not to be secret)
    drive(drive(provider.open_receiver(destination, subscription="book", name="first")).close())
    uuids = [f"{'odd' if number % 3 else 'good'}-{number}" for number in range(hostile * 3 // 2)]
    sent = [Message(uuid=uuid, body=f"of {uuid}", properties={"n": n}) for n, uuid in enumerate(uuids)]
    drive(provider.send(destination, sent))
    drive(provider.close())
    engine = engine_of(url)
    with engine.begin() as connection:
        found = connection.execute(text("SELECT msg_id FROM dms_msg WHERE uuid LIKE 'odd-%'")).all()
        odd = [int(number) for (number,) in found]
        for number in odd:
            spoil(connection, number, chance)
    engine.dispose()
    return [uuid for uuid in uuids if uuid.startswith("good")], odd


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "plain"])
def test_each_is_run_or_parked_and_the_good_ones_run_once(
    url: str, tmp_path: Path, hostile: int, *, atomic: bool
) -> None:
    good, odd = fill(url, "queue://orders", hostile=hostile, seed=4711)
    engine = engine_of(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE ran (uuid TEXT)"))
    store, events = SqlHistory.from_url(url), list[RetrievalFailureEvent]()
    settings: dict[str, Any] = {
        "name": "book",
        "history": store,
        "local_parking_file": tmp_path / "parked.sqlite3",
    }

    @trigger("queue://orders", transacted=atomic, **settings)
    def book(message: Message, connection: Connection) -> None:
        connection.execute(text("INSERT INTO ran (uuid) VALUES (:u)"), {"u": message.uuid})

    @trigger("queue://orders", **settings)
    def book_elsewhere(message: Message) -> None:
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO ran (uuid) VALUES (:u)"), {"u": message.uuid})

    def note(event: RetrievalFailureEvent) -> None:
        events.append(event)

    heard = on_retrieval_failure("book")(note)
    one, provider = book if atomic else book_elsewhere, SqlJms.from_url(url)
    try:
        with Running(Consumer([one], provider), until_idle=1.0) as running:
            eventually(lambda: not running.alive)
    finally:
        heard.close()
        drive(provider.close())

    with engine.connect() as connection:
        ran = list(connection.execute(text("SELECT uuid FROM ran")).scalars())
        waiting = connection.execute(text("SELECT COUNT(*) FROM dms_queue_entry")).scalar_one()
    parked = drive(store.parking.list(trigger="book", limit=10 * hostile))
    drive(store.close())
    engine.dispose()
    assert sorted(uuid for uuid in ran if uuid.startswith("good")) == sorted(good)
    assert waiting == 0
    assert len(ran) - len(good) + len(parked) == len(odd)
    unreadable = [one for one in parked if one.kind is ParkedKind.UNREADABLE]
    assert len(unreadable) > hostile // 4
    assert all(one.raw for one in unreadable), "whole"
    assert sum(event.cause is Cause.UNREADABLE for event in events) == len(unreadable)


def test_commands_that_list_and_move_go_on_past_odd_rows(url: str) -> None:
    good, odd = fill(url, "queue://orders", hostile=60, seed=7)
    admin = Admin.from_url(url)

    listed = drive(admin.entries("queue://orders", limit=1000))
    copied = drive(admin.move("queue://orders", "queue://copies", keep=True))
    moved = drive(admin.move("queue://orders", "queue://others"))
    left = drive(admin.entries("queue://orders", limit=1000))
    there = drive(admin.entries("queue://others", limit=1000))
    drive(admin.close())

    assert (len(listed), list(copied)) == (len(good) + len(odd), list(moved))
    assert {one.id for one in left} < set(odd)
    assert len(left) + len(moved) == len(listed)
    assert set(good) <= {one.uuid for one in there}


def test_the_source_of_spark_reads_on_past_odd_rows(url: str) -> None:
    good, odd = fill(url, "queue://orders", hostile=60, seed=8)
    pins = Pins(Destination.parse("queue://orders"), "spark", "line")
    link = SqlLink(open_engine(url, asyncio=False), owned=True)

    async def read(connection: Any) -> list[Any]:
        await take_over(connection, pins)
        await pin(connection, pins, after=0, until=2**60, limit=1000)
        found = await numbers(connection, pins, after=0, upto=1)
        return [
            received_of(row, row.msg_id) for row in await messages(connection, DestinationKind.QUEUE, found)
        ]

    async def make(connection: Any) -> None:
        await attach(connection, pins)

    drive(link.run("attaching", make, atomic=True))
    received = drive(link.run("reading", read, atomic=True))
    drive(link.close())

    assert {one.message.uuid for one in received if isinstance(one, Arrival)} >= set(good)
    assert any(isinstance(one, Unreadable) for one in received)
    assert len(received) <= len(good) + len(odd)


def test_limbo_goes_on_past_odd_rows(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/limbo.sqlite3"
    limbo = Limbo.from_url(url)
    again = Again(input="book", attempts=1, delay=timedelta(0), max_attempts=3, failure_port="failed")
    messages = [Message(uuid=Uuid(f"u{n}"), body=f"{n}") for n in range(6)]
    drive(limbo.put([Delayed(component="book", port="in", message=one, again=again) for one in messages]))
    engine = engine_of(url)
    with engine.begin() as connection:
        there = list(connection.execute(text("SELECT msg_id FROM dms_limbo_msg ORDER BY msg_id")).scalars())
        for place, change in (
            (0, "dms_limbo_msg SET jms_correlationid = CAST(x'c328' AS TEXT)"),
            (2, "dms_limbo_msg SET jms_expiration = 'soon'"),
            (4, "dms_limbo_delay SET delay = 'long'"),
        ):
            changing = text(f"UPDATE {change} WHERE msg_id = :id")
            connection.execute(changing, {"id": there[place]})
    engine.dispose()

    taken = drive(limbo.take("book"))
    drive(limbo.close())

    assert sorted(str(one.message.uuid) for one in taken) == ["u1", "u3", "u5"]
