"""If the table of entries was emptied, a SQL history reports it: processed messages would run again."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from sqlalchemy import Engine, inspect, text

from history import ConfigurationError
from history.bridge import drive
from history.sql import SqlHistory
from history.store import BatchOwner, Owner
from tests.fixtures.databases import engine_at
from tests.integration.history.sql.sql_worker import opened as open_history

#: Three ways to empty a history: its table of entries in two ways, or all tables.
EMPTY = {
    "truncated": "TRUNCATE doubtless_history",
    "deleted": "DELETE FROM doubtless_history",
    "all tables": "DELETE FROM {}",
}


@pytest.fixture
def opened(sql_database: str) -> Iterator[Callable[[], SqlHistory]]:
    """Return a function that opens the history again, like another process."""
    with ExitStack() as histories:
        yield lambda: histories.enter_context(open_history(sql_database))


@pytest.fixture
def engine(sql_database: str) -> Iterator[Engine]:
    with engine_at(sql_database) as engine:
        yield engine


def run(engine: Engine, statement: str) -> None:
    """Run a statement, for each table if it names none."""
    if engine.dialect.name == "sqlite" and statement.startswith("TRUNCATE"):
        pytest.skip("SQLite has no TRUNCATE")
    with engine.begin() as connection:
        for statement_of_table in {statement.format(name) for name in inspect(engine).get_table_names()}:
            connection.execute(text(statement_of_table))


def alarms(caplog: pytest.LogCaptureFixture) -> list[tuple[str | None, bool]]:
    """Return the CRITICAL records: the trigger, and whether its history was emptied."""
    records = (record for record in caplog.records if record.levelno == logging.CRITICAL)
    return [(vars(record).get("trigger"), "was emptied" in record.getMessage()) for record in records]


@pytest.mark.parametrize("how", EMPTY)
@pytest.mark.parametrize("owner", ["worker", BatchOwner("query/7")], ids=["worker", "batch"])
def test_the_first_claim_after_it_says_so_once(
    opened: Callable[[], SqlHistory], engine: Engine, how: str, owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    history, other = opened(), opened()
    drive(history.claim("orders", ["u1"], "worker"))
    drive(other.claim("orders", ["u2"], "worker"))
    run(engine, EMPTY[how])

    (again,) = drive(history.claim("orders", ["u1"], owner))
    drive(history.claim("orders", ["u3"], owner))
    drive(other.claim("orders", ["u4"], "another"))

    assert again.found is None
    assert alarms(caplog) == [("orders", True)]


def test_a_transacted_claim_after_all_tables_were_emptied_says_so(
    opened: Callable[[], SqlHistory], engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    history = opened()

    async def claim(uuid: str) -> None:
        async with await history.transaction() as transaction:
            await transaction.history.claim("orders", [uuid], "worker")

    drive(claim("u1"))
    run(engine, EMPTY["all tables"])
    drive(claim("u1"))

    assert alarms(caplog) == [("orders", True)]


def test_a_process_that_starts_after_all_tables_were_emptied_says_so_and_refuses(
    opened: Callable[[], SqlHistory], engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    drive(opened().claim("orders", ["u1"], "worker"))
    run(engine, EMPTY["all tables"])

    with pytest.raises(ConfigurationError):
        drive(opened().claim("orders", ["u1"], "worker"))

    assert (None, True) in alarms(caplog)


def test_a_process_that_starts_later_says_so(
    opened: Callable[[], SqlHistory], engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    drive(opened().claim("orders", ["u1"], "worker"))
    run(engine, EMPTY["deleted"])

    drive(opened().claim("orders", ["u1"], "worker"))

    assert alarms(caplog) == [("orders", True)]


def test_what_is_forgotten_purged_or_never_was_is_no_alarm(
    opened: Callable[[], SqlHistory], engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    history = opened()
    (claim,) = drive(history.claim("orders", ["u1"], "worker", time_to_live=timedelta(seconds=1)))
    drive(history.complete("orders", "u1", claim.fence))
    drive(history.claim("orders", ["u2"], "worker"))
    drive(history.forget("orders", "u2"))
    run(engine, "UPDATE doubtless_history SET expires_at = 1 WHERE trigger_name = 'orders'")
    drive(history.purge("orders"))

    drive(history.claim("orders", ["u1", "u2", "u3"], "worker"))
    drive(opened().claim("invoices", ["u1"], "worker"))

    assert alarms(caplog) == []


def test_a_history_from_before_there_was_an_anchor_gets_one_without_an_alarm(
    opened: Callable[[], SqlHistory], engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    drive(opened().claim("orders", ["u1"], "worker"))
    run(engine, "DELETE FROM doubtless_meta WHERE name = 'anchor'")
    run(engine, "DELETE FROM doubtless_history WHERE trigger_name = ''")

    drive(opened().claim("orders", ["u2"], "worker"))
    assert alarms(caplog) == []
    run(engine, EMPTY["deleted"])
    drive(opened().claim("orders", ["u1"], "worker"))

    assert alarms(caplog) == [("orders", True)]


def test_the_anchor_is_no_trigger(opened: Callable[[], SqlHistory]) -> None:
    history = opened()
    drive(history.claim("orders", ["u1"], "worker"))

    assert drive(history.triggers()) == ["orders"]
