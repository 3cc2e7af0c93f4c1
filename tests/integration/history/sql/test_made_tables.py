"""The tables of a SQL history as PostgreSQL has them."""

import psycopg

from history.bridge import drive
from tests.integration.history.sql.sql_worker import opened

#: Tables whose rows come and go.
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
