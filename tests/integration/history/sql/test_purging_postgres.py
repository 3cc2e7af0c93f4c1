"""A purge of PostgreSQL: behind an old snapshot, beside other purges, and beside services that hold rows."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from history.bridge import drive
from history.sql.entries.purging import PIECE
from tests.fixtures.waiting import eventually
from tests.integration.history.sql.sql_worker import TRIGGER, opened

#: How many pieces a purge has in these tests.
PIECES = 40

#: How much more than the first pieces the last ones may read.
MORE = 1.1


@pytest.fixture
def url(postgres_url: str) -> str:
    """The URL of a history without entries."""
    with opened(postgres_url) as store:
        drive(store.check())
    return postgres_url


def fill(connection: psycopg.Connection, expires: sql.SQL, rows: int = PIECES * PIECE) -> None:
    """Insert expired entries; ``expires`` is when the n-th expires."""
    insert = sql.SQL(
        "INSERT INTO doubtless_history (trigger_name, digest, state, outcome, fence, started_at, expires_at)"
        " SELECT {}, decode(md5(n::text), 'hex'), 'completed', 'ok', n, 0, {}"
        " FROM generate_series(1, {}) AS n"
    )
    connection.execute(insert.format(TRIGGER, expires, rows))
    connection.execute("ANALYZE doubtless_history")


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """Keep a snapshot open, as pg_dump does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT COUNT(*) FROM doubtless_meta")
        yield


def purge_pieces(url: str, cursor: str | None, pieces: int) -> str | None:
    """Purge some pieces over a new connection; return the next place."""
    with opened(f"{url}&application_name=purger") as store:
        for _ in range(pieces):
            _, cursor = drive(store.purge_some(TRIGGER, cursor))
    return cursor


def pages_read(connection: psycopg.Connection) -> int:
    """Return how many pages of the entries' table and indexes have been read since it was made.

    A session adds its numbers when it ends.
    """

    def ended() -> bool:
        counted = connection.execute(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'purger'"
        ).fetchone()
        return counted == (0,)

    eventually(ended)
    row = connection.execute(
        "SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit"
        " FROM pg_statio_user_tables WHERE relid = 'doubtless_history'::regclass"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("expires", [sql.SQL("n"), sql.SQL("1")], ids=["one-by-one", "all-at-once"])
def test_pieces_read_no_more_while_an_old_snapshot_is_open(url: str, expires: sql.SQL) -> None:
    some = PIECES // 4
    with psycopg.connect(url, autocommit=True) as connection:
        fill(connection, expires)
        with old_snapshot(url):
            begin = pages_read(connection)
            cursor = purge_pieces(url, None, some)
            first = pages_read(connection) - begin
            cursor = purge_pieces(url, cursor, 2 * some)
            before = pages_read(connection)
            cursor = purge_pieces(url, cursor, some)
            last = pages_read(connection) - before

        left = connection.execute(
            "SELECT COUNT(*) FROM doubtless_history WHERE trigger_name = %s", [TRIGGER]
        ).fetchone()
    assert left == (0,)
    assert last <= first * MORE, f"the first {some} pieces read {first} pages, the last {last}"


def test_a_purge_leaves_rows_that_somebody_holds(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        fill(connection, sql.SQL("n"), 2 * PIECE)
        with psycopg.connect(url) as holder, opened(f"{url}&lock_timeout=2s") as store:
            held = holder.execute(
                "SELECT fence FROM doubtless_history WHERE fence <= 3 AND fence > 0 FOR UPDATE"
            )
            assert held.rowcount == 3

            deleted = drive(store.purge(TRIGGER))

            assert deleted == 2 * PIECE - 3
            holder.rollback()
            assert drive(store.purge(TRIGGER)) == 3


def test_two_purges_share_the_work(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        fill(connection, sql.SQL("n"))

    def purge(_: int) -> int:
        with opened(url) as store:
            return drive(store.purge(TRIGGER))

    with ThreadPoolExecutor(2) as threads:
        deleted = list(threads.map(purge, range(2)))

    assert sum(deleted) == PIECES * PIECE
