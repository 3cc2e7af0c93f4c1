"""The SQL table of retrieval failure events, in SQLite and in PostgreSQL."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from history.sql.database.engine import open_engine
from tests.fixtures.databases import engine_at
from tests.fixtures.threads import in_threads
from tests.fixtures.waiting import PATIENCE
from tests.integration.helpers.given_up import assert_it_changed_nothing, async_doomed, doomed, hearing
from tests.unit.helpers.given_up import event
from triggers import Cause, ConfigurationError, Message
from triggers.events import RetrievalFailureEvent
from triggers.sinks import SqlTableSink, open_sink

#: The time of the event.
TIME = datetime(2024, 5, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def url(sql_database: str) -> str:
    return sql_database


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """The user's own engine, without autocommit."""
    with engine_at(url) as engine:
        yield engine


def rows(engine: Engine, table: str = "doubtless_events") -> list[dict[str, Any]]:
    with engine.connect() as connection:
        found = connection.execute(text(f'SELECT * FROM "{table}" ORDER BY time, id'))  # noqa: S608
        return [dict(row) for row in found.mappings()]


def test_an_event_is_a_row_with_all_it_says(url: str, engine: Engine) -> None:
    sent = Message(body=b"\xff", uuid="given-up", delivery_count=3)
    told = event(time=TIME, delivery_count=3, exception_class="a.B", exception_message="no", message=sent)
    sink = SqlTableSink(url)

    sink(told)
    sink.close()

    [row] = rows(engine)
    time = row.pop("time")
    assert (datetime.fromisoformat(time) if isinstance(time, str) else time) == TIME
    assert Message.from_json(row.pop("message")) == sent
    assert json.loads(row.pop("event")) == told.to_cloudevent()
    assert row == {
        "id": told.to_cloudevent()["id"],
        "trigger_name": "book",
        "destination_index": 0,
        "destination": "orders",
        "delivery_count": 3,
        "exception_class": "a.B",
        "exception_message": "no",
        "cause": Cause.SERVICE_FAILED.value,
        "uuid": "given-up",
    }


def test_an_event_that_is_told_twice_is_stored_once(url: str, engine: Engine) -> None:
    told, other = event(), event()
    sink = SqlTableSink(url)

    for one in (told, other, told):
        sink(one)
    sink.close()
    again = SqlTableSink(url)
    again(RetrievalFailureEvent.model_validate(told.to_cloudevent()["data"]))
    again.close()

    assert {row["id"] for row in rows(engine)} == {told.id, other.id}
    assert len(rows(engine)) == 2


@pytest.mark.parametrize(
    "told",
    [
        event(message=None, delivery_count=-1, cause=Cause.UNREADABLE),
        event("\0trigger", exception_message="\0\udc80", message=Message(body="\0\udc80", uuid="\0\udc80")),
        event(exception_message='it\'s "so"; DROP TABLE doubtless_events; -- %s :x {y}'),
    ],
    ids=["unreadable", "no text", "no SQL"],
)
def test_any_event_can_be_stored(url: str, engine: Engine, told: RetrievalFailureEvent) -> None:
    sink = SqlTableSink(url)

    sink(told)
    sink.close()

    [row] = rows(engine)
    assert RetrievalFailureEvent.model_validate(json.loads(row["event"])["data"]) == told
    assert (row["message"] is None) is (told.message is None)


def test_the_table_has_the_name_that_it_is_given(url: str, engine: Engine) -> None:
    sink = open_sink(f"{url}{'&' if '?' in url else '?'}table=Given%20up")
    assert isinstance(sink, SqlTableSink)

    sink(event())
    sink.close()

    assert len(rows(engine, "Given up")) == 1


@pytest.mark.parametrize("table", ["", "t" * 59])
def test_a_name_that_the_database_would_not_take_is_refused(table: str) -> None:
    with pytest.raises(ConfigurationError, match=r"table: .* use 1 to 58 characters"):
        SqlTableSink("sqlite:///events.db", table=table)


@pytest.mark.parametrize("where", ["redis://127.0.0.1/0", "events.db", "mysql+pymysql://127.0.0.1/shop"])
def test_another_database_is_refused_by_the_name_of_the_sink(where: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^SqlTableSink: "):
        SqlTableSink(where)


def test_many_sinks_and_threads_that_share_them_make_one_table(url: str, engine: Engine) -> None:
    sinks = [SqlTableSink(url) for _ in range(4)]
    start = threading.Barrier(2 * len(sinks))

    def store(sink: SqlTableSink) -> None:
        start.wait(PATIENCE)
        sink(event())

    in_threads(store, sinks * 2)
    for sink in sinks:
        sink.close()

    assert len(rows(engine)) == 2 * len(sinks)


def test_a_table_that_was_dropped_is_made_again_and_no_body_is_logged(
    url: str, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    fail = doomed()
    with hearing(SqlTableSink(url)):
        fail.handle(Message(body="b", uuid="1"))
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE doubtless_events"))

        for uuid in ("not stored", "2"):
            assert_it_changed_nothing(fail.handle(Message(body="secret body", uuid=uuid)))

    assert [row["uuid"] for row in rows(engine)] == ["2"]
    [failure] = [one for one in caplog.records if one.name.startswith("triggers.events")]
    assert "is unavailable while storing an event" in failure.getMessage()
    assert "secret body" not in caplog.text


def test_a_table_that_is_there_needs_no_right_to_create_one(postgres_url: str) -> None:
    maker = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    first = SqlTableSink(postgres_url)
    first(event())
    first.close()
    with maker.begin() as connection:
        schema = connection.execute(text("SELECT current_schema()")).scalar_one()
        connection.execute(text(f"CREATE ROLE {schema}_role"))
        connection.execute(text(f"GRANT USAGE ON SCHEMA {schema} TO {schema}_role"))
        connection.execute(text(f"GRANT SELECT, INSERT ON doubtless_events TO {schema}_role"))
    try:
        sink = SqlTableSink(f"{postgres_url}%20-crole%3D{schema}_role")
        sink(event())
        sink.close()

        assert len(rows(maker)) == 2
    finally:
        with maker.begin() as connection:
            connection.execute(text(f"DROP OWNED BY {schema}_role"))
            connection.execute(text(f"DROP ROLE {schema}_role"))
        maker.dispose()


def test_an_engine_of_the_users_own_is_used_and_left_open(engine: Engine) -> None:
    sink = SqlTableSink(engine)

    sink(event())
    sink.close()

    assert len(rows(engine)) == 1
    assert engine.get_execution_options() == {}


@pytest.mark.parametrize("given", ["blocking", "asyncio"])
async def test_a_sink_works_under_asyncio_over_either_kind_of_engine(
    url: str, engine: Engine, given: str
) -> None:
    asyncio_engine = create_async_engine(open_engine(url, asyncio=True).url)
    with hearing(SqlTableSink(url if given == "blocking" else asyncio_engine)):
        outcome = await async_doomed().ahandle(Message(body="b", uuid="given-up"))
    await asyncio_engine.dispose()

    assert_it_changed_nothing(outcome)
    assert len(rows(engine)) == 1


def test_an_asyncio_engine_in_blocking_code_is_an_error_that_says_so(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = create_async_engine(open_engine(url, asyncio=True).url)
    with hearing(SqlTableSink(given)):
        outcome = doomed().handle(Message(body="b", uuid="given-up"))

    assert_it_changed_nothing(outcome)
    assert "SqlTableSink: its engine is for asyncio, and no event loop runs here" in caplog.text
