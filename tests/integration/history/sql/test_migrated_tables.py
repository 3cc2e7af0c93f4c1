"""The tables as SQL, the update of older tables, and a role that may not make tables."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from history import NotPermittedError
from history.bridge import drive
from history.sql.statements.dialects import Dialect
from history.sql.tables.history import SCHEMA
from history.sql.tables.script import history_script
from history.store import BatchOwner, Hold
from tests.fixtures.servers.postgres import grant_data_rights, limited_role
from tests.integration.history.sql.sql_worker import TRIGGER, opened

#: A table of the script that a history makes only for a consumer that needs it.
LATER = "doubtless_offsets"

_COLUMNS = (
    "SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default"
    " FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, ordinal_position"
)
_INDEXES = (
    "SELECT tablename, replace(indexdef, current_schema(), '') FROM pg_indexes"
    " WHERE schemaname = current_schema() ORDER BY 1, indexname"
)
_OPTIONS = (
    "SELECT relname, reloptions FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
    " AND relkind IN ('r', 'S') ORDER BY 1"
)
_ROWS = "SELECT name, value FROM doubtless_meta WHERE name <> 'lineage' ORDER BY 1"


def made_in(url: str) -> Sequence[object]:
    """Return everything that a history consists of in a schema of PostgreSQL, before its first message."""
    with psycopg.connect(url) as connection:
        rows = [
            row for asked in (_COLUMNS, _INDEXES, _OPTIONS) for row in connection.execute(asked).fetchall()
        ]
        rows += connection.execute(_ROWS).fetchall()
    return [row for row in rows if row[0] != LATER]


def make_by_script(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in history_script(Dialect.POSTGRESQL):
            connection.execute(statement.encode())


def make_older(url: str) -> None:
    """Make a history with the tables of version 1."""
    with opened(url) as store:
        drive(store.check())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP INDEX doubtless_history_purge")
        connection.execute("CREATE INDEX doubtless_history_expiry ON doubtless_history (expires_at)")
        connection.execute("ALTER TABLE doubtless_history RESET (autovacuum_vacuum_scale_factor)")
        connection.execute("ALTER TABLE doubtless_history SET (fillfactor = 80)")
        connection.execute("DROP TABLE doubtless_log")
        connection.execute("UPDATE doubtless_meta SET value = 1 WHERE name = 'schema'")


def schema_of(url: str) -> object:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT value FROM doubtless_meta WHERE name = 'schema'").fetchone()


@pytest.fixture
def worker(postgres_url: str) -> Iterator[str]:
    """The URL of a role that may connect, and nothing more."""
    with limited_role(postgres_url) as role:
        yield role


class TestScript:
    def test_it_makes_what_the_first_use_makes(self, postgres_url: str) -> None:
        with opened(postgres_url) as store:
            drive(store.check())
        at_first_use = made_in(postgres_url)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "DO $$ DECLARE name TEXT; BEGIN FOR name IN SELECT tablename FROM pg_tables"
                " WHERE schemaname = current_schema() LOOP EXECUTE 'DROP TABLE ' || name || ' CASCADE';"
                " END LOOP; END $$"
            )
            connection.execute("DROP SEQUENCE doubtless_fences")

        make_by_script(postgres_url)

        assert made_in(postgres_url) == at_first_use

    def test_it_makes_a_file_of_sqlite(self, tmp_path: Path) -> None:
        schema = "SELECT type, name, tbl_name FROM sqlite_master WHERE tbl_name <> ? ORDER BY 1, 2"
        by_use, by_script = tmp_path / "use.sqlite3", tmp_path / "script.sqlite3"
        with opened(f"sqlite:///{by_use}") as store:
            drive(store.check())

        with closing(sqlite3.connect(by_script)) as connection:
            connection.executescript(";\n".join(history_script(Dialect.SQLITE)) + ";")

        with closing(sqlite3.connect(by_use)) as used, closing(sqlite3.connect(by_script)) as made:
            assert made.execute(schema, [LATER]).fetchall() == used.execute(schema, [LATER]).fetchall()
            assert made.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        with opened(f"sqlite:///{by_script}") as store:
            assert drive(store.check()) == []
            assert drive(store.claim(TRIGGER, ["u1"], "worker"))[0].found is None

    def test_a_role_without_the_right_to_make_tables_uses_them(self, postgres_url: str, worker: str) -> None:
        make_by_script(postgres_url)
        grant_data_rights(postgres_url, worker)

        with opened(worker) as store:
            drive(store.check())
            (claim,) = drive(store.claim(TRIGGER, ["u1"], "worker"))
            drive(store.claim(TRIGGER, ["u2"], BatchOwner("query/1")))
            drive(store.purge(TRIGGER))
            drive(store.joining.due(TRIGGER, Hold("worker", timedelta(seconds=1))))
            drive(store.control.overview())
            assert drive(store.parking.count()) == 0

        assert claim.found is None


class TestOlderTables:
    def test_they_are_brought_up_to_date(self, postgres_url: str) -> None:
        with opened(postgres_url) as store:
            drive(store.check())
        newest = made_in(postgres_url)
        make_older(postgres_url)

        with opened(postgres_url) as store:
            printed = drive(store.migrate(dry=True))
            assert schema_of(postgres_url) == (1,)
            ran = drive(store.migrate())
            again = drive(store.migrate())

        assert (printed, again) == (ran, [])
        changed = [row for row in newest if row not in made_in(postgres_url)]
        assert [row[0] for row in changed if isinstance(row, tuple)] == ["doubtless_history"]
        with psycopg.connect(postgres_url) as connection:
            rows = connection.execute(
                "SELECT unnest(reloptions) FROM pg_class WHERE relname = 'doubtless_history'"
                " AND relnamespace = current_schema()::regnamespace"
            ).fetchall()
        assert {"fillfactor=80", "autovacuum_vacuum_scale_factor=0.02"} < {option for (option,) in rows}
        assert schema_of(postgres_url) == (SCHEMA,)

    def test_workers_use_them_and_are_told_the_command(self, postgres_url: str) -> None:
        make_older(postgres_url)

        with opened(postgres_url) as store:
            warnings = drive(store.check())
            (claim,) = drive(store.claim(TRIGGER, ["u1"], "worker"))
            drive(store.purge(TRIGGER))
            drive(store.migrate())
            afterwards = drive(store.check())

        assert claim.found is None
        assert [one for one in warnings if "doubtless history migrate" in one]
        assert [one for one in afterwards if "doubtless history migrate" in one] == []

    def test_half_an_index_is_made_again(self, postgres_url: str) -> None:
        make_older(postgres_url)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "CREATE INDEX doubtless_history_purge ON doubtless_history (expires_at, digest)"
            )
            connection.execute(
                "UPDATE pg_index SET indisvalid = FALSE"
                " WHERE indexrelid = 'doubtless_history_purge'::regclass"
            )

        with opened(postgres_url) as store:
            drive(store.migrate())
            assert drive(store.migrate()) == []

    def test_a_role_that_does_not_own_them_is_refused(self, postgres_url: str, worker: str) -> None:
        make_older(postgres_url)
        grant_data_rights(postgres_url, worker)

        with opened(worker) as store, pytest.raises(NotPermittedError):
            drive(store.migrate())

    def test_a_file_of_sqlite_gets_the_version(self, tmp_path: Path) -> None:
        file = tmp_path / "history.sqlite3"
        with opened(f"sqlite:///{file}") as store:
            drive(store.check())
            with closing(sqlite3.connect(file)) as connection, connection:
                connection.execute("UPDATE doubtless_meta SET value = 1 WHERE name = 'schema'")
                connection.execute("DROP INDEX doubtless_history_expiry")
            assert len(drive(store.migrate())) == 2
            assert drive(store.migrate()) == []

    def test_new_tables_are_up_to_date(self, postgres_url: str) -> None:
        with opened(postgres_url) as store:
            drive(store.check())

            assert drive(store.migrate()) == []

    def test_nothing_is_made_where_there_is_no_history(self, postgres_url: str) -> None:
        with opened(postgres_url) as store:
            assert drive(store.migrate()) == []

        with psycopg.connect(postgres_url) as connection:
            assert connection.execute(_COLUMNS).fetchall() == []
