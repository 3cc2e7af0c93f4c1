"""The history estimates the number of a trigger's entries without reading all of them."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path

import psycopg
import pytest

from history.bridge import drive
from history.sql.entries.counting import SAMPLED
from history.store.inspection import size_of
from tests.integration.history.sql.sql_worker import TRIGGER, opened
from tests.integration.history.sql.test_purging_postgres import as_purger, pages_read
from triggers.dashboard.survey import Surveyor

MANY = 30 * SAMPLED

_INSERT = (
    "INSERT INTO doubtless_history (trigger_name, digest, state, outcome, fence, started_at, expires_at)"
    " VALUES ({0}, {0}, 'completed', 'ok', 1, 0, 4000000000000)"
)


def rows(number: int) -> list[tuple[str, bytes]]:
    return [(TRIGGER, blake2b(str(n).encode(), digest_size=16).digest()) for n in range(number)]


def fill_sqlite(url: str, number: int) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.executemany(_INSERT.format("?"), rows(number))


def fill_postgres(url: str, number: int) -> None:
    with psycopg.connect(as_purger(url)) as connection, connection.cursor() as cursor:
        cursor.executemany(_INSERT.format("%s"), rows(number))


@pytest.fixture(params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], str]:
    """Fill a history of either kind, and return its URL."""
    kind = str(request.param)
    url = f"sqlite:///{tmp_path}/h.sqlite3" if kind == "sqlite" else request.getfixturevalue("postgres_url")

    def fill(number: int) -> str:
        with opened(url) as store:
            drive(store.check())
        {"sqlite": fill_sqlite, "postgres": fill_postgres}[kind](url, number)
        return url

    return fill


def test_few_entries_are_counted(filled: Callable[[int], str]) -> None:
    with opened(filled(SAMPLED - 2)) as store:
        drive(store.claim(TRIGGER, ["running"], "worker", timedelta(minutes=1)))

        size = drive(size_of(store, TRIGGER))

    assert (size.completed, size.started, size.is_about) == (SAMPLED - 2, 1, False)


def test_many_entries_are_estimated(filled: Callable[[int], str]) -> None:
    with opened(filled(MANY)) as store:
        size = drive(size_of(store, TRIGGER))
        counted = drive(store.stats(TRIGGER))

    assert size.is_about
    assert size.completed == pytest.approx(MANY, rel=0.1)
    assert (counted.completed, counted.is_about) == (MANY, False)


def test_a_survey_of_the_dashboard_reads_few_of_many_entries(postgres_url: str) -> None:
    with opened(postgres_url) as store:
        drive(store.check())
    fill_postgres(postgres_url, MANY)

    with psycopg.connect(as_purger(postgres_url), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE doubtless_history")

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        before = pages_read(connection)
        with opened(as_purger(postgres_url)) as store:
            surveyor = Surveyor(lambda: store, background=False)
            survey = surveyor.latest()
            surveyor.close()
        read = pages_read(connection) - before

    assert survey.sizes is not None
    assert survey.sizes[TRIGGER].is_about
    assert 0 < read < 2 * SAMPLED, "each entry of the sample is one page at most"
