"""Tests of a SQL history that do not fit the conformance suite: processes, lost servers, files in use."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from history import ConfigurationError, HistoryUnavailableError, SqlHistory, State
from history.bridge import drive
from history.sql.entries.purging import PIECE
from history.sql.tables.history import SCHEMA
from history.store import BatchOwner, Purged
from tests.fixtures.databases import asked, engine_at
from tests.fixtures.histories import wait_for_circuits
from tests.fixtures.waiting import eventually
from tests.integration.history.sql.sql_worker import TRIGGER, Worker, opened
from triggers.testing.postgres_server import PostgresServer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite3"


@pytest.fixture
def url(sql_database: str) -> str:
    return sql_database


@pytest.fixture
def store(url: str) -> Iterator[SqlHistory]:
    with opened(url) as store:
        yield store


def pieces_of_a_purge(store: SqlHistory) -> Iterator[Purged]:
    piece = drive(store.purge_some(TRIGGER))
    yield piece
    while piece.cursor is not None:
        yield (piece := drive(store.purge_some(TRIGGER, piece.cursor)))


class TestPurging:
    def test_what_others_left_behind_is_passed_by_in_pieces(self, store: SqlHistory) -> None:
        soon = timedelta(seconds=0.5)
        foreign = [f"u{n}" for n in range(4 * PIECE)]
        drive(store.claim("another", foreign, "worker", time_to_live=soon))
        drive(store.claim("another", ["last"], BatchOwner("query/1"), time_to_live=soon))
        drive(store.claim(TRIGGER, ["mine"], "worker", time_to_live=2 * soon))
        eventually(lambda: drive(store.lookup(TRIGGER, ["mine"])) == [None])

        pieces = list(pieces_of_a_purge(store))

        assert len(pieces) > 4
        assert sum(piece.deleted for piece in pieces) == 1
        assert drive(store.purge("another")) == len(foreign) + 1

    def test_the_ledger_of_others_is_passed_by_in_pieces(self, url: str, store: SqlHistory) -> None:
        drive(store.check())
        rows = [{"number": n, "token": f"query/{n}"} for n in range(1, 2 * PIECE + 1)]
        insert = (
            "INSERT INTO doubtless_batches (number, trigger_name, token, state, started_at, expires_at)"
            " VALUES (:number, 'another', :token, 'completed', 0, 1)"
        )
        with engine_at(url) as engine, engine.begin() as connection:
            connection.execute(text(insert), rows)

        assert len(list(pieces_of_a_purge(store))) >= 3
        assert drive(store.purge("another")) == 0


class TestTables:
    def test_processes_that_start_at_once_create_the_tables_together(
        self, url: str, store: SqlHistory
    ) -> None:
        uuids = [f"u{n}" for n in range(4)]
        with ExitStack() as stack:
            workers = [stack.enter_context(Worker(url, uuid)) for uuid in uuids]
            for worker in workers:
                worker.wait_for("ready")

            for worker in workers:
                worker.go_on()

            for worker in workers:
                worker.wait_for("claimed")

        entries = drive(store.lookup(TRIGGER, uuids))
        assert [entry and entry.owner for entry in entries] == ["worker"] * 4
        assert len({entry.fence for entry in entries if entry}) == 4

    def test_tables_of_a_newer_version_are_refused(self, url: str, store: SqlHistory) -> None:
        drive(store.check())
        asked(url, "UPDATE doubtless_meta SET value = value + 1 WHERE name = 'schema'")

        with opened(url) as newer, pytest.raises(ConfigurationError, match=f"only up to {SCHEMA}; upgrade"):
            drive(newer.claim(TRIGGER, ["u1"], "worker"))

    def test_fences_grow_when_everything_was_purged(self, url: str, store: SqlHistory) -> None:
        (first,) = drive(store.claim(TRIGGER, ["u1"], "worker"))
        drive(store.release(TRIGGER, "u1", first.fence))
        drive(store.purge(TRIGGER))
        assert list(drive(store.triggers())) == []

        with opened(url) as second:
            (again,) = drive(second.claim(TRIGGER, ["u1"], "worker"))

        assert again.fence > first.fence


class TestCrashes:
    def test_what_a_killed_process_had_claimed_stays_started(self, url: str, store: SqlHistory) -> None:
        with Worker(url, "u1") as worker:
            worker.wait_for("ready")
            worker.go_on()
            worker.wait_for("claimed")
            worker.kill()

            (found,) = drive(store.claim(TRIGGER, ["u1"], "successor"))

        assert found.found is not None
        assert (found.found.state, found.found.owner) == (State.STARTED, "worker")

    def test_what_a_killed_process_had_not_committed_is_absent(self, url: str, store: SqlHistory) -> None:
        with Worker(url, "u1", "open") as worker:
            worker.wait_for("ready")
            worker.go_on()
            worker.wait_for("claimed")
            assert drive(store.lookup(TRIGGER, ["u1"])) == [None]
            worker.kill()

            (claimed,) = drive(store.claim(TRIGGER, ["u1"], "successor"))

        assert claimed.found is None


class TestPostgresAway:
    def test_a_server_that_is_killed_is_unavailable_and_forgets_nothing(
        self, private_postgres: PostgresServer
    ) -> None:
        with opened(private_postgres.url) as store:
            (claimed,) = drive(store.claim(TRIGGER, ["u1"], "worker"))
            private_postgres.kill()

            with pytest.raises(HistoryUnavailableError, match="while claiming") as caught:
                drive(store.claim(TRIGGER, ["u2"], "worker"))
            with pytest.raises(HistoryUnavailableError):
                drive(store.complete(TRIGGER, "u1", claimed.fence))
            with pytest.raises(HistoryUnavailableError):
                drive(store.parking.count())
            assert isinstance(caught.value.__cause__, Exception)

            private_postgres.start()
            wait_for_circuits()
            assert drive(store.complete(TRIGGER, "u1", claimed.fence))

    def test_a_connection_that_died_in_the_pool_is_replaced_unnoticed(self, postgres_url: str) -> None:
        with opened(postgres_url) as store, psycopg.connect(postgres_url, autocommit=True) as admin:
            drive(store.claim(TRIGGER, ["u1"], "worker"))
            admin.execute(
                "SELECT pg_terminate_backend(l.pid) FROM pg_stat_activity AS l "
                "WHERE l.pid <> pg_backend_pid() AND l.query LIKE '%doubtless_history%'"
            )

            assert drive(store.claim(TRIGGER, ["u2"], "worker"))[0].found is None


class TestSqliteFile:
    def test_memory_is_one_database_for_all_threads_but_not_for_asyncio(self) -> None:
        with opened("sqlite://") as store:
            drive(store.claim(TRIGGER, ["u1"], "worker"))

            assert drive(store.lookup(TRIGGER, ["u1"])) != [None]
            with pytest.raises(ConfigurationError, match="memory"):
                store.for_asyncio()
