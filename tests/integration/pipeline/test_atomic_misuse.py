"""A service misuses the session or connection that it receives.

Its neighbours are still booked once, and the trigger is not suspended. The message is never completed without
its effect.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import Session

from history.entry import EntryOutcome
from tests.integration.helpers.atomic_shop import INSERT, Make, Shop
from triggers import Message

#: Something that a service does before or after its effect.
Deed = Callable[[Any], object]


def with_it(opened: Any) -> None:
    with opened:
        pass


def driver_of(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def swallowed(deed: Deed) -> Deed:
    def do(opened: Any) -> None:
        with suppress(Exception):
            deed(opened)

    return do


def run(statement: str) -> Deed:
    return lambda opened: opened.execute(text(statement))


SESSIONS: dict[str, Deed] = {
    "close": lambda session: session.close(),
    "with": with_it,
    "commit": lambda session: session.commit(),
    "rollback": lambda session: session.rollback(),
    "reset": lambda session: session.reset(),
    "invalidate": lambda session: session.invalidate(),
    "expunge": lambda session: session.expunge_all(),
    "commit of its connection": swallowed(lambda session: session.connection().commit()),
    "ROLLBACK": swallowed(run("ROLLBACK")),
    "an error that is swallowed": swallowed(run("INSERT INTO nowhere VALUES (1)")),
}

CONNECTIONS: dict[str, Deed] = {
    "close": lambda connection: connection.close(),
    "with": with_it,
    "commit": swallowed(lambda connection: connection.commit()),
    "rollback": swallowed(lambda connection: connection.rollback()),
    "invalidate": lambda connection: connection.invalidate(),
    "detach": lambda connection: connection.detach(),
    "a driver's commit": lambda connection: driver_of(connection).commit(),
    "a driver's rollback": lambda connection: driver_of(connection).rollback(),
    "a driver's close": lambda connection: driver_of(connection).close(),
    "COMMIT": run("COMMIT"),
    "COMMIT that is refused": swallowed(run("/* mine */ COMMIT")),
    "ROLLBACK in the middle": swallowed(run("SELECT 1; ROLLBACK")),
    "release of our savepoint": swallowed(run("RELEASE SAVEPOINT doubtless_service")),
    "return to our savepoint": swallowed(run("ROLLBACK TO SAVEPOINT doubtless_service")),
    "a savepoint of its own": run("SAVEPOINT mine"),
    "an error that is swallowed": swallowed(run("INSERT INTO nowhere VALUES (1)")),
    "a history that is emptied": run("DELETE FROM doubtless_history"),
}

CASES = [
    # With a rollback after the effect, the service itself says that it wants no effect.
    *((Session, name, "after") for name in SESSIONS if name != "rollback"),
    *((Session, name, "before") for name in SESSIONS),
    *((Connection, name, place) for name in CONNECTIONS for place in ("before", "after")),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].__name__}: {case[1]} {case[2]} its effect")
def service(request: pytest.FixtureRequest) -> Callable[..., None]:
    kind, name, place = request.param
    deed = (SESSIONS if kind is Session else CONNECTIONS)[name]

    def book(message: Message, opened: Any) -> None:
        odd = str(message.uuid).startswith("odd")
        if odd and place == "before":
            deed(opened)
        opened.execute(INSERT, {"uuid": message.uuid})
        if odd and place == "after":
            deed(opened)

    book.__annotations__ = {"message": Message, "opened": kind, "return": None}
    return book


def is_settled(shop: Shop, uuid: str) -> bool:
    """Whether a completed message has its effect exactly once. A parked message may have it."""
    effects = shop.booked().count(uuid)
    return effects <= 1 and (shop.outcome(uuid) is not EntryOutcome.OK or effects == 1)


def test_handling_one_after_the_other_goes_on(shop: Shop, made: Make, service: Callable[..., None]) -> None:
    book = made(service)

    uuids = ("a", "odd", "b", "odd-2", "c")
    outcomes = {uuid: book.handle(Message(body={}, uuid=uuid, delivery_count=1)) for uuid in uuids}

    assert [outcomes[uuid].error for uuid in "abc"] == [None] * 3
    assert [uuid for uuid in shop.booked() if uuid in {*"abc"}] == ["a", "b", "c"]
    assert not any(outcome.suspend for outcome in outcomes.values())
    assert is_settled(shop, "odd")
    assert is_settled(shop, "odd-2")


def test_what_shares_its_transaction_goes_on(shop: Shop, made: Make, service: Callable[..., None]) -> None:
    book = made(service)
    waiting = dict.fromkeys(("a", "b", "odd", "c", "d"), 1)

    for _ in range(20):  # as a provider delivers a recovered message again
        messages = [Message(body={}, uuid=uuid, delivery_count=count) for uuid, count in waiting.items()]
        outcomes = book.handle_batch(messages)
        assert not any(outcome.suspend for outcome in outcomes)
        pairs = zip(messages, outcomes, strict=True)
        waiting = {str(m.uuid): m.delivery_count + 1 for m, outcome in pairs if not outcome.acknowledge}
        if not waiting:
            break

    assert waiting == {}
    assert [uuid for uuid in shop.booked() if uuid != "odd"] == ["a", "b", "c", "d"]
    assert is_settled(shop, "odd")


def test_nothing_is_committed_over_the_claim_of_another_owner(shop: Shop, made: Make) -> None:
    def book(message: Message, connection: Connection) -> None:
        connection.execute(INSERT, {"uuid": message.uuid})
        connection.execute(
            text("UPDATE doubtless_history SET owner = 'another', fence = fence + 1 WHERE digest > ''")
        )

    outcome = made(book).handle(Message(body={}, uuid="a", delivery_count=1))

    assert shop.booked() == []
    assert (outcome.parked, shop.outcome("a")) == (True, EntryOutcome.FAILED)


def test_a_connection_that_a_coroutine_detached_is_committed_and_closed(shop: Shop, made: Make) -> None:
    drivers: list[Any] = []

    async def book(message: Message, connection: AsyncConnection) -> None:
        await connection.execute(INSERT, {"uuid": message.uuid})
        drivers.append((await connection.get_raw_connection()).driver_connection)
        await connection.run_sync(lambda connection: connection.detach())

    async def handle() -> list[BaseException | None]:
        trigger = made(book)
        errors = [(await trigger.ahandle(Message(body={}, uuid=uuid))).error for uuid in ("a", "b")]
        open_still = [driver for driver in drivers if not is_closed(driver)]
        await trigger.aclose()
        assert open_still == []
        return errors

    assert asyncio.run(handle()) == [None, None]
    assert shop.booked() == ["a", "b"]


def is_closed(driver: Any) -> bool:
    """Whether a connection of psycopg or aiosqlite is closed."""
    if hasattr(driver, "closed"):
        return bool(driver.closed)
    try:
        return driver.total_changes is None
    except ValueError:  # the error of aiosqlite
        return True


#: A service leaves something in its session. The query shows whether the next service sees it.
LEFT = {
    "postgresql": {
        "a role": ("SET ROLE tenant", "SELECT current_user = 'tenant'"),
        "a time zone": ("SET TIME ZONE 'Asia/Tokyo'", "SELECT current_setting('TimeZone') = 'Asia/Tokyo'"),
        "a setting of a function": (
            "SELECT set_config('my.tenant', '7', false)",
            "SELECT current_setting('my.tenant', true) = '7'",
        ),
        "a lock": (
            "SELECT pg_advisory_lock(42)",
            "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
        ),
        "a temporary table": (
            "CREATE TEMP TABLE mine (a INT)",
            "SELECT count(*) > 0 FROM pg_class WHERE relname = 'mine'",
        ),
        "a prepared statement": (
            "/* a comment */ PREPARE mine AS SELECT 1",
            "SELECT count(*) > 0 FROM pg_prepared_statements WHERE name = 'mine'",
        ),
    },
    "sqlite": {
        "a pragma": ("PRAGMA cache_size = 77", "SELECT cache_size = 77 FROM pragma_cache_size"),
        "a temporary table": (
            "CREATE TEMP TABLE mine (a INT)",
            "SELECT count(*) > 0 FROM sqlite_temp_master",
        ),
    },
}


@pytest.mark.parametrize("left", sorted({name for names in LEFT.values() for name in names}))
def test_what_a_service_sets_for_the_session_reaches_no_other_service(
    shop: Shop, made: Make, left: str
) -> None:
    if left not in LEFT[shop.engine.dialect.name]:
        pytest.skip(f"{shop.engine.dialect.name} has no {left}")
    leave, is_there = LEFT[shop.engine.dialect.name][left]
    if left == "a role":
        with shop.engine.begin() as connection:
            for statement in ("CREATE ROLE tenant SUPERUSER", "GRANT ALL ON bookings TO tenant"):
                connection.execute(text(statement))
    seen: list[bool] = []

    def book(message: Message, connection: Connection) -> None:
        seen.append(bool(connection.execute(text(is_there)).scalar()))
        if message.uuid == "odd":
            connection.execute(text(leave))
        seen.append(bool(connection.execute(text(is_there)).scalar()))
        connection.execute(INSERT, {"uuid": message.uuid})

    trigger = made(book)
    outcomes = [trigger.handle(Message(body={}, uuid=uuid)) for uuid in ("a", "odd", "b")]

    assert [outcome.error for outcome in outcomes] == [None] * 3
    assert shop.booked() == ["a", "b", "odd"]
    assert seen == [False, False, False, True, False, False]


def test_how_a_service_sets_its_driver_reaches_no_other_service(shop: Shop, made: Make) -> None:
    seen: list[Any] = []

    def book(message: Message, connection: Connection) -> None:
        connection.execute(INSERT, {"uuid": message.uuid})
        seen.append(driver_of(connection).row_factory)
        if message.uuid == "odd":
            driver_of(connection).row_factory = dict_row

    trigger = made(book)
    outcomes = [trigger.handle(Message(body={}, uuid=uuid)) for uuid in ("a", "odd", "b")]

    assert [outcome.error for outcome in outcomes] == [None] * 3
    assert seen[0] == seen[1] == seen[2]
    assert shop.booked() == ["a", "b", "odd"]


def dict_row(cursor: Any, *_: Any) -> Any:
    """Return a row factory for dictionaries, for sqlite3 and for psycopg."""
    raise AssertionError("no other statement uses it")
