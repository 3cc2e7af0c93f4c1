"""A purge of PostgreSQL: with an old snapshot, with other purges, and with services that lock rows."""

import re
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from history.beside.fingerprints import first_of
from history.bridge import drive
from history.sql.entries.purging import PIECE
from history.sql.records import PIECE as RECORDS
from tests.fixtures.beside import kept_in
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


def as_purger(url: str) -> str:
    """The same URL for sessions that :func:`pages_read` knows."""
    return re.sub(r"application_name=\w+", "application_name=purger", url)


def fill(url: str, expires: sql.SQL, rows: int = PIECES * PIECE) -> None:
    """Insert expired entries; ``expires`` is when the n-th expires."""
    insert = sql.SQL(
        "INSERT INTO doubtless_history (trigger_name, digest, state, outcome, fence, started_at, expires_at)"
        " SELECT {}, decode(md5(n::text), 'hex'), 'completed', 'ok', n, 0, {}"
        " FROM generate_series(1, {}) AS n"
    )
    with psycopg.connect(as_purger(url), autocommit=True) as connection:
        connection.execute(insert.format(TRIGGER, expires, rows))
        connection.execute("ANALYZE doubtless_history")


@contextmanager
def old_snapshot(url: str) -> Generator[None]:
    """Keep a snapshot open, as pg_dump does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT COUNT(*) FROM doubtless_meta")
        yield


def purge_pieces(url: str, cursor: str | None, pieces: int) -> str | None:
    """Purge some pieces over a new connection; return the next place."""
    with opened(as_purger(url)) as store:
        for _ in range(pieces):
            _, cursor = drive(store.purge_some(TRIGGER, cursor))
    return cursor


def pages_read(connection: psycopg.Connection, table: str = "doubtless_history") -> int:
    """Return how many pages of a table and its indexes have been read since it was made.

    A session adds its numbers when it ends; this ends those of the purgers.
    """
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'purger'"
    )

    def ended() -> bool:
        counted = connection.execute(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'purger'"
        ).fetchone()
        return counted == (0,)

    eventually(ended)
    row = connection.execute(
        "SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit"
        " FROM pg_statio_user_tables WHERE relid = CAST(%s AS regclass)",
        [table],
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("expires", [sql.SQL("n"), sql.SQL("1")], ids=["one-by-one", "all-at-once"])
def test_pieces_read_no_more_while_an_old_snapshot_is_open(url: str, expires: sql.SQL) -> None:
    some = PIECES // 4
    with psycopg.connect(url, autocommit=True) as connection:
        fill(url, expires)
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
    assert 0 < last <= first * MORE, f"the first {some} pieces read {first} pages, the last {last}"


def test_a_purge_leaves_rows_that_somebody_holds(url: str) -> None:
    fill(url, sql.SQL("n"), 2 * PIECE)
    with psycopg.connect(url) as holder, opened(f"{url}&lock_timeout=2s") as store:
        held = holder.execute("SELECT fence FROM doubtless_history WHERE fence BETWEEN 1 AND 3 FOR UPDATE")
        assert held.rowcount == 3

        assert drive(store.purge(TRIGGER)) == 2 * PIECE - 3
        holder.rollback()
        assert drive(store.purge(TRIGGER)) == 3


def test_two_purges_share_the_work(url: str) -> None:
    fill(url, sql.SQL("n"))

    def purge(_: int) -> int:
        with opened(url) as store:
            return drive(store.purge(TRIGGER))

    with ThreadPoolExecutor(2) as threads:
        deleted = list(threads.map(purge, range(2)))

    assert sum(deleted) == PIECES * PIECE


def test_new_records_read_no_more_of_those_that_are_over(url: str) -> None:
    table, calls = "doubtless_records", 40

    def put(first: int) -> int:
        kept = kept_in(store).fingerprints
        for number in range(first, first + calls):
            drive(first_of(kept, TRIGGER, f"new-{number}", b"12345678", timedelta(days=1)))
        return pages_read(connection, table)

    with psycopg.connect(url, autocommit=True) as connection, opened(as_purger(url)) as store:
        put(0)
        with psycopg.connect(as_purger(url), autocommit=True) as filler:
            filler.execute(
                "INSERT INTO doubtless_records"
                " (trigger_name, kind, key, version, value, changed_at, expires_at)"
                " SELECT 'over', 'result', decode(md5(n::text), 'hex'), 1, 'x', 0, n"
                " FROM generate_series(1, %s) AS n ORDER BY md5(n::text)",  # not by page
                [8 * calls * RECORDS],
            )
        with old_snapshot(url):
            begin = pages_read(connection, table)
            first = put(calls) - begin
            put(2 * calls)
            before = put(3 * calls)
            last = put(4 * calls) - before

        row = connection.execute(
            "SELECT COUNT(*) FROM doubtless_records WHERE trigger_name = 'over'"
        ).fetchone()
    assert row == (4 * calls * RECORDS,)
    assert 0 < last <= first * MORE, f"{calls} calls read {first} pages, the last ones {last}"
