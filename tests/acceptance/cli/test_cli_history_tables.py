"""``doubtless history ddl`` and ``migrate``: from an owner's tables to workers that may only use them."""

from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.in_process import InProcess
from tests.fixtures.servers.postgres import grant_data_rights, limited_role

#: A service with a fatal failure for some messages.
SERVICE = """
from doubtless import trigger

@trigger("queue://orders", name="book", transacted=True, keep_result=True, journal=True)
def book(order: dict[str, object]) -> str:
    if order["id"] == "fails":
        raise ValueError("no")
    return "booked"
"""

LINE = '{{"headers": {{"uuid": "{0}"}}, "body": {{"id": "{0}"}}}}\n'


def version_of(url: str) -> Sequence[object]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT value FROM doubtless_meta WHERE name = 'schema'").fetchall()


def test_workers_that_may_not_make_tables_run_on_those_of_the_owner(
    doubtless: InProcess, postgres_url: str
) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    lines = "".join(LINE.format(name) for name in ("a", "a", "fails"))

    printed = doubtless("history", "ddl", "--sql-jms")

    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(printed.out.encode())
    with limited_role(postgres_url) as worker:
        grant_data_rights(postgres_url, worker)
        at = {"DOUBTLESS_PROVIDER": worker, "DOUBTLESS_HISTORY": worker}
        sent = doubtless("send", "queue://orders", "-", stdin=lines, **at)
        ran = doubtless("run", "first", "--until-idle", "0.1", "--json", **at)
        doctor = doubtless("doctor", "first", "--json", **at)
        limbo = doubtless("sqljms", "limbo", "list", "--json", **at)
        parked = doubtless("parked", "list", "--json", **at)
        suspended = doubtless("suspend", "book", "--wait", "0", **at)
        migrated = doubtless("history", "migrate", **at)

    assert (sent.code, ran.code, limbo.code) == (0, 0, 0)
    assert suspended.code == 1, "no consumer runs that could confirm it"
    assert [(one["ok"], one["duplicate"], one["rejected"]) for one in ran.json] == [(1, 1, 1)]
    assert [one["uuid"] for one in parked.json] == ["fails"]
    assert [one for one in doctor.json if one["level"] == "problem"] == []
    assert migrated.code == 0, "there is nothing to change"


def test_a_file_can_be_made_from_the_sql(doubtless: InProcess) -> None:
    printed = doubtless("history", "ddl", "--dialect", "sqlite", "--json")

    assert printed.code == 0
    assert [one.split()[0] for one in printed.json[:3]] == ["PRAGMA", "BEGIN", "CREATE"]
    assert printed.json[-1] == "COMMIT"


def test_older_tables_are_migrated_by_their_owner(doubtless: InProcess, postgres_url: str) -> None:
    doubtless(
        "history", "import", "-", "--trigger", "book", stdin="uuid\nu1\n", DOUBTLESS_HISTORY=postgres_url
    )
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("UPDATE doubtless_meta SET value = 1 WHERE name = 'schema'")
        owner.execute("DROP INDEX doubtless_history_purge")

    dry = doubtless("history", "migrate", "--dry-run", "--history", postgres_url)
    before = version_of(postgres_url)
    ran = doubtless("history", "migrate", "--history", postgres_url)
    again = doubtless("history", "migrate", "--history", postgres_url, "--json")

    assert dry.out == ran.out
    assert "CREATE INDEX CONCURRENTLY" in dry.out
    assert before != version_of(postgres_url)
    assert again.json == []


@pytest.mark.parametrize("scheme", ["redis", "memory"])
def test_only_tables_are_migrated(doubtless: InProcess, redis_url: str, scheme: str) -> None:
    answer = doubtless("history", "migrate", "--history", redis_url if scheme == "redis" else "memory://")

    assert answer.code == 2


def test_a_missing_file_is_not_made(doubtless: InProcess) -> None:
    assert doubtless("history", "migrate", "--history", "sqlite:///absent.sqlite3").code == 2
    assert not Path(doubtless.folder / "absent.sqlite3").exists()
