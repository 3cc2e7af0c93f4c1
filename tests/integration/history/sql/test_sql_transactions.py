"""A SQL history works inside a user's transaction, and claims wait for transactions that are still open."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from history.beside.progress import begin
from history.bridge import drive
from history.entry import EntryOutcome, State, digest
from history.sql import SqlHistory
from history.store import BatchOwner
from history.store.progress import BatchState, Beginning, changed
from tests.fixtures.databases import asked, engine_at
from tests.fixtures.waiting import eventually

TRIGGER = "book-order"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlHistory]:
    store = SqlHistory.from_url(postgres_url)
    drive(store.check())
    yield store
    drive(store.close())


@pytest.fixture
def service(postgres_url: str) -> Iterator[Engine]:
    """The engine of a service that has its own table."""
    asked(postgres_url, "CREATE TABLE bookings (uuid TEXT)")
    with engine_at(postgres_url) as engine:
        yield engine


@pytest.fixture
def somebody_waits(postgres_url: str) -> Iterator[Callable[[], None]]:
    """Return a function that waits until a client of this schema waits for a lock."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def wait() -> None:
            sql = (
                "SELECT COUNT(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) "
                "WHERE NOT l.granted AND a.query LIKE '%doubtless_history%'"
            )
            eventually(lambda: connection.execute(sql).fetchone() != (0,))

        yield wait


def book(connection: Connection, uuid: str) -> None:
    connection.execute(text("INSERT INTO bookings VALUES (:uuid)"), {"uuid": uuid})


def booked(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT uuid FROM bookings")).scalars())


class TestJoined:
    def test_entry_and_effect_are_committed_together(self, store: SqlHistory, service: Engine) -> None:
        with service.begin() as connection:
            joined = store.joined(connection)
            (claimed,) = drive(joined.claim(TRIGGER, ["u1"], "worker"))
            book(connection, "u1")
            assert drive(joined.complete(TRIGGER, "u1", claimed.fence))
            assert drive(store.lookup(TRIGGER, ["u1"])) == [None], "nobody else sees it yet"

        (entry,) = drive(store.lookup(TRIGGER, ["u1"]))
        assert entry is not None
        assert entry.outcome is EntryOutcome.OK
        assert booked(service) == ["u1"]

    def test_entry_and_effect_are_rolled_back_together(self, store: SqlHistory, service: Engine) -> None:
        with service.connect() as connection:
            drive(store.joined(connection).claim(TRIGGER, ["u1"], "worker"))
            book(connection, "u1")
            connection.rollback()

        assert drive(store.lookup(TRIGGER, ["u1"])) == [None]
        assert booked(service) == []

    def test_a_batch_and_its_record_are_rolled_back_together(
        self, store: SqlHistory, service: Engine
    ) -> None:
        run = Beginning(query="q", batch=7, lineage="l", run="a")
        begun = drive(begin(store.progress, TRIGGER, run, NOW))
        done = changed(begun, "a", BatchState.COMPLETED, NOW, {})
        batch = BatchOwner("l/7/a")
        drive(store.claim(TRIGGER, ["u1"], batch))
        with service.connect() as connection:
            joined = store.joined(connection)
            assert drive(joined.settle_batches(TRIGGER, [batch], EntryOutcome.OK, record=done))
            connection.rollback()

        assert drive(store.progress.read(TRIGGER, "q", 7)) == begun
        (entry,) = drive(store.lookup(TRIGGER, ["u1"]))
        assert entry is not None
        assert entry.outcome is None

    def test_a_view_creates_the_tables_of_a_new_history(self, postgres_url: str, service: Engine) -> None:
        fresh = SqlHistory.from_url(postgres_url)

        with service.begin() as connection:
            drive(fresh.joined(connection).claim(TRIGGER, ["u1"], "worker"))

        assert drive(fresh.lookup(TRIGGER, ["u1"])) != [None]
        drive(fresh.close())

    def test_sqlite_commits_entry_and_effect_together(self, tmp_path: Path) -> None:
        store = SqlHistory.from_url(f"sqlite:///{tmp_path}/h.sqlite3")
        service = create_engine(f"sqlite:///{tmp_path}/h.sqlite3", isolation_level="AUTOCOMMIT")
        with service.connect() as connection:
            connection.execute(text("CREATE TABLE bookings (uuid TEXT)"))
            for uuid, end in (("u1", "COMMIT"), ("u2", "ROLLBACK")):
                connection.execute(text("BEGIN IMMEDIATE"))
                drive(store.joined(connection).claim(TRIGGER, [uuid], "worker"))
                book(connection, uuid)
                connection.execute(text(end))

        assert [entry is not None for entry in drive(store.lookup(TRIGGER, ["u1", "u2"]))] == [True, False]
        assert booked(service) == ["u1"]
        service.dispose()
        drive(store.close())


class TestClaimsThatWait:
    """A claim that meets an open transaction waits for its end, and then sees the committed rows."""

    def test_a_claim_waits_for_the_transaction_that_claimed_before_it(
        self, store: SqlHistory, service: Engine, somebody_waits: Callable[[], None]
    ) -> None:
        with ThreadPoolExecutor(2) as threads, service.connect() as connection:
            drive(store.joined(connection).claim(TRIGGER, ["u1", "u2"], "first"))
            waiting = threads.submit(drive, store.claim(TRIGGER, ["u1"], "second"))
            somebody_waits()
            connection.commit()

        (found,) = waiting.result()
        assert found.found is not None
        assert (found.found.state, found.found.owner) == (State.STARTED, "first")

    def test_a_claim_gets_what_the_transaction_before_it_rolled_back(
        self, store: SqlHistory, service: Engine, somebody_waits: Callable[[], None]
    ) -> None:
        with ThreadPoolExecutor(1) as threads, service.connect() as connection:
            drive(store.joined(connection).claim(TRIGGER, ["u1"], "first"))
            waiting = threads.submit(drive, store.claim(TRIGGER, ["u1"], "second"))
            somebody_waits()
            connection.rollback()

        assert waiting.result()[0].found is None

    def test_a_claim_that_waited_does_not_take_from_a_batch_that_was_opened_meanwhile(
        self, store: SqlHistory, service: Engine, somebody_waits: Callable[[], None]
    ) -> None:
        uuids = [f"u{n}" for n in range(20)]
        first = min(uuids, key=digest)
        with ThreadPoolExecutor(1) as threads, service.connect() as connection:
            drive(store.joined(connection).claim(TRIGGER, [first], "first"))
            waiting = threads.submit(drive, store.claim(TRIGGER, uuids, "second"))
            somebody_waits()
            drive(store.claim(TRIGGER, [uuid for uuid in uuids if uuid != first], BatchOwner("query/1")))
            connection.rollback()

        got = {uuid for uuid, claim in zip(uuids, waiting.result(), strict=True) if claim.found is None}
        assert got == {first}

    def test_a_purge_spares_what_is_being_claimed_again(self, store: SqlHistory, service: Engine) -> None:
        drive(store.claim(TRIGGER, ["u1"], "first", time_to_live=timedelta(milliseconds=1)))
        with service.connect() as connection:
            (again,) = drive(store.joined(connection).claim(TRIGGER, ["u1"], "second"))
            assert again.found is None
            drive(store.purge(TRIGGER))  # which does not wait
            connection.commit()

        assert drive(store.lookup(TRIGGER, ["u1"])) != [None]

    def test_a_completion_that_waited_for_a_take_over_is_stale(
        self, store: SqlHistory, service: Engine, somebody_waits: Callable[[], None]
    ) -> None:
        (claimed,) = drive(store.claim(TRIGGER, ["u1"], "first"))
        with ThreadPoolExecutor(1) as threads, service.connect() as connection:
            drive(store.joined(connection).take_over(TRIGGER, "u1", "second", None, claimed.fence))
            waiting = threads.submit(drive, store.complete(TRIGGER, "u1", claimed.fence))
            somebody_waits()
            connection.commit()

        assert not waiting.result()
        (entry,) = drive(store.lookup(TRIGGER, ["u1"]))
        assert entry is not None
        assert (entry.state, entry.owner) == (State.STARTED, "second")


class TestCancelled:
    """A step that is cancelled leaves no transaction open and no connection behind."""

    async def test_a_claim_on_postgresql_is_cancelled_while_it_waits(
        self, store: SqlHistory, service: Engine, somebody_waits: Callable[[], None]
    ) -> None:
        patient = store.for_asyncio()
        await patient.check()
        with service.connect() as connection:
            drive(store.joined(connection).claim(TRIGGER, ["u1"], "first"))
            for _ in range(20):  # more often than the pool has connections
                claiming = asyncio.ensure_future(patient.claim(TRIGGER, ["u0", "u1"], "second"))
                await asyncio.to_thread(somebody_waits)
                claiming.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await claiming
            connection.rollback()

        assert [claim.found for claim in await patient.claim(TRIGGER, ["u0", "u1"], "third")] == [None, None]
        await patient.close()

    async def test_a_claim_on_sqlite_is_cancelled_while_it_waits(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/h.sqlite3?timeout=0.3"
        blocker = create_engine(url, isolation_level="AUTOCOMMIT")
        blocking = SqlHistory.from_url(url)
        store = blocking.for_asyncio()
        await store.check()
        with blocker.connect() as connection:
            connection.execute(text("BEGIN IMMEDIATE"))
            for _ in range(3):
                claiming = asyncio.ensure_future(store.claim(TRIGGER, ["u1"], "second"))
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(claiming, timeout=0.05)
            connection.execute(text("ROLLBACK"))

        assert (await store.claim(TRIGGER, ["u1"], "third"))[0].found is None
        blocker.dispose()
        await store.close()
        drive(blocking.close())

    async def test_a_statement_on_sqlite_that_is_cut_off_locks_nobody_out(self, tmp_path: Path) -> None:
        store = SqlHistory.from_url(f"sqlite:///{tmp_path}/h.sqlite3?timeout=0.3").for_asyncio()
        await store.check()
        held: list[object] = []  # as if uncollected garbage held it
        engine = store._engine  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        assert isinstance(engine, AsyncEngine)
        async with engine.connect() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            assert driver is not None
            await driver.execute("BEGIN IMMEDIATE")
            await driver.execute("CREATE TABLE effects (number INTEGER)")
            held.append(await driver.execute("INSERT INTO effects VALUES (1), (2) RETURNING number"))
            await connection.invalidate()

        assert (await store.claim(TRIGGER, ["u1"], "next"))[0].found is None
        assert held
        await store.close()

    def test_a_signal_in_a_statement_on_sqlite_locks_nobody_out(self, tmp_path: Path) -> None:
        store = SqlHistory.from_url(f"sqlite:///{tmp_path}/h.sqlite3?timeout=0.3")
        drive(store.check())
        held: list[object] = []  # as if uncollected garbage held it
        engine = store._engine  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

        def interrupt(_connection: Any, cursor: object, statement: str, *_: Any) -> None:
            if "RETURNING" in statement:
                held.append(cursor)
                raise KeyboardInterrupt

        event.listen(engine, "after_cursor_execute", interrupt)
        with pytest.raises(KeyboardInterrupt):
            drive(store.claim(TRIGGER, ["u1", "u2"], "first"))
        event.remove(engine, "after_cursor_execute", interrupt)

        assert held
        assert [claim.found for claim in drive(store.claim(TRIGGER, ["u1", "u2"], "next"))] == [None, None]
        drive(store.close())
