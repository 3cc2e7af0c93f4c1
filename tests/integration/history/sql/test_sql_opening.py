"""Opening a SQL history, its warnings, and the plans of PostgreSQL for its statements."""

import sqlite3
import sys
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, event, text

from history import ConfigurationError, MemoryHistory, MissingExtraError, SqlHistory, open_history
from history.bridge import drive
from history.sql.database.engine import open_engine
from history.sql.statements.dialects import Statement, wanted
from history.sql.statements.entries import CLAIM, LOOKUP, SETTLE
from history.store import BatchOwner
from tests.integration.history.sql.sql_worker import TRIGGER, opened
from triggers.testing.postgres_server import PostgresServer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite3"


def do_not_sync(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = NORMAL").close()


class TestWarnings:
    def test_a_file_of_its_own_needs_no_warning(self, file: Path) -> None:
        with opened(f"sqlite:///{file}") as store:
            assert list(drive(store.check())) == []

    def test_memory_is_warned_of(self) -> None:
        with opened("sqlite://") as store:
            assert list(drive(store.check())) == list(drive(MemoryHistory().check()))

    def test_an_engine_that_does_not_sync_is_warned_of(self, file: Path) -> None:
        engine = create_engine(f"sqlite:///{file}")
        event.listen(engine, "connect", do_not_sync)

        (warning,) = drive(SqlHistory(engine).check())

        assert "does not sync" in warning
        engine.dispose()

    def test_a_server_that_may_lose_commits_is_warned_of(self, private_postgres: PostgresServer) -> None:
        with opened(private_postgres.url) as store:
            warnings = drive(store.check())

        assert ["fsync = off" in warning for warning in warnings] == [True]


class TestOpening:
    @pytest.mark.parametrize("url", ["mysql://host/db", "postgresql+asyncpg://host/db", "no url"])
    def test_other_databases_and_drivers_are_refused(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match="sqlite:///"):
            SqlHistory.from_url(url)

    def test_a_missing_driver_is_named_with_its_extra(
        self, monkeypatch: pytest.MonkeyPatch, file: Path
    ) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)
        monkeypatch.setitem(sys.modules, "aiosqlite", None)

        with pytest.raises(MissingExtraError, match=r"doubtless\[postgres\]"):
            open_history("postgresql://host/db")
        with (
            opened(f"sqlite:///{file}") as store,
            pytest.raises(MissingExtraError, match=r"doubtless\[asyncio\]"),
        ):
            store.for_asyncio()

    def test_the_engine_of_somebody_else_is_not_closed(self, file: Path) -> None:
        engine = create_engine(f"sqlite:///{file}")
        store = SqlHistory(engine)
        drive(store.claim(TRIGGER, ["u1"], "worker"))

        drive(store.close())

        with engine.connect() as connection:
            assert (
                connection.execute(
                    text("SELECT COUNT(*) FROM doubtless_history WHERE trigger_name > ''")
                ).scalar()
                == 1
            )
        engine.dispose()


class TestPlans:
    @pytest.mark.parametrize("statement", [CLAIM, LOOKUP, SETTLE], ids=["claim", "lookup", "settle"])
    def test_no_plan_scans_a_table_that_was_small_when_it_was_analyzed(
        self, postgres_url: str, statement: Statement
    ) -> None:
        with opened(postgres_url) as store:
            drive(store.claim(TRIGGER, ["u1"], BatchOwner("query/1")))
        values = {"trigger": TRIGGER, "owner": "worker", "lease": None, "time_to_live": 1000}
        keys = wanted("postgresql", [b"0" * 16, b"1" * 16], [1, 2], ["ok", None])
        engine = open_engine(postgres_url, asyncio=False)
        assert isinstance(engine, Engine)
        with engine.connect() as connection:
            connection.execute(text("ANALYZE doubtless_history, doubtless_batches"))

            told = connection.execute(text(f"EXPLAIN {statement['postgresql']}"), values | keys)
            plan = "\n".join(told.scalars())

        engine.dispose()
        assert "doubtless_history" in plan
        assert "Seq Scan on" not in plan, plan

    def test_a_scan_that_there_is_no_way_round_is_not_compiled_first(self, postgres_url: str) -> None:
        engine = open_engine(postgres_url, asyncio=False)
        assert isinstance(engine, Engine)
        with engine.connect() as connection:
            connection.execute(text("CREATE TABLE small (number INT)"))

            lines = connection.execute(text("EXPLAIN ANALYZE SELECT SUM(number) FROM small"))
            plan = "\n".join(lines.scalars())

        engine.dispose()
        assert "Seq Scan on small" in plan
        assert "JIT" not in plan, plan


#: In these tables rows are added and deleted all the time.
BUSY = {
    *("doubtless_batches", "doubtless_history"),
    *("doubtless_log", "doubtless_records"),
}


def test_tables_whose_rows_come_and_go_are_vacuumed_often(postgres_url: str) -> None:
    with opened(postgres_url) as store:
        drive(store.check())

    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute(
            "SELECT relname, reloptions FROM pg_class"
            " WHERE relnamespace = current_schema()::regnamespace AND reloptions IS NOT NULL"
        ).fetchall()

    options = {name: set(of_table) for name, of_table in rows}
    assert set(options) == BUSY
    assert all("autovacuum_vacuum_scale_factor=0.02" in some for some in options.values())
    assert "fillfactor=70" in options["doubtless_history"]
