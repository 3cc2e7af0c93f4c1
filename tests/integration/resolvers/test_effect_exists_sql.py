"""The resolver looks for a row, in a real SQLite file and in a PostgreSQL that does not exist."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from history import ConfigurationError, Message, UnavailableError, Uuid
from resolvers import EffectUnavailableError, Resolution, Resolved, sql_row_exists
from tests.fixtures.ports import closed_port

BY_UUID = "SELECT 1 FROM bookings WHERE uuid = :uuid"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bookings.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE bookings (uuid TEXT, message_id TEXT, correlation_id TEXT, seats INT)")
        database.execute("INSERT INTO bookings VALUES ('done', 'ID:1', 'c1', 0)")
    return path


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.fixture
def locked(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file)) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield


def message(uuid: str, *, message_id: str | None = None, correlation_id: str | None = None) -> Message:
    return Message(body="", uuid=Uuid(uuid), message_id=message_id, correlation_id=correlation_id)


def ask(resolver: Callable[[str, str, Message], Resolved], uuid: str) -> Resolved:
    return resolver(uuid, "book", message(uuid))


def test_a_row_means_duplicate_and_the_reason_names_the_database(url: str) -> None:
    answer = ask(sql_row_exists(url, BY_UUID), "done")

    assert answer == Resolved(Resolution.DUPLICATE, f"the effect is in {url}")


def test_no_row_means_new(url: str) -> None:
    answer = ask(sql_row_exists(url, BY_UUID), "undone")

    assert answer == Resolved(Resolution.NEW, f"no effect in {url}")


def test_no_row_means_in_doubt_where_the_effect_is_not_the_last_step(url: str) -> None:
    answer = ask(sql_row_exists(url, BY_UUID, absent=Resolution.IN_DOUBT), "undone")

    assert answer.resolution is Resolution.IN_DOUBT


def test_absence_can_never_mean_duplicate(url: str) -> None:
    with pytest.raises(ConfigurationError, match="would drop every message"):
        sql_row_exists(url, BY_UUID, absent=Resolution.DUPLICATE)


def test_an_engine_of_the_users_is_used_and_left_open(url: str) -> None:
    engine = create_engine(url)
    try:
        resolver = sql_row_exists(engine, BY_UUID)

        assert ask(resolver, "done").resolution is Resolution.DUPLICATE
        assert ask(resolver, "undone").resolution is Resolution.NEW
    finally:
        engine.dispose()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 FROM bookings WHERE message_id = :message_id",
        "SELECT 1 FROM bookings WHERE correlation_id = :correlation_id",
    ],
)
def test_a_statement_may_search_by_another_identity(url: str, statement: str) -> None:
    resolver = sql_row_exists(url, statement)

    known = resolver("x", "book", message("x", message_id="ID:1", correlation_id="c1"))
    unknown = resolver("x", "book", message("x", message_id="ID:2", correlation_id="c2"))

    assert known.resolution is Resolution.DUPLICATE
    assert unknown.resolution is Resolution.NEW


def test_a_message_without_the_identity_is_in_doubt_not_new(url: str) -> None:
    resolver = sql_row_exists(url, "SELECT 1 FROM bookings WHERE correlation_id = :correlation_id")

    answer = resolver("done", "book", message("done"))

    assert answer.resolution is Resolution.IN_DOUBT
    assert "the message has no correlation_id" in str(answer.reason)


def test_the_name_of_the_trigger_is_a_parameter(url: str) -> None:
    resolver = sql_row_exists(url, f"{BY_UUID} AND :trigger_name = 'book'")

    assert ask(resolver, "done").resolution is Resolution.DUPLICATE
    assert resolver("done", "bill", message("done")).resolution is Resolution.NEW


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT 1 FROM bookings", "differs between messages"),
        ("SELECT 1 FROM bookings WHERE :trigger_name = 'book'", "differs between messages"),
        ("SELECT 1 FROM bookings WHERE uuid = :uid", "cannot search by 'uid'; did you mean 'uuid'"),
        ("SELECT 1 FROM bookings WHERE uuid = :uuid AND seats = :seats", "use one of uuid, trigger_name"),
    ],
)
def test_a_statement_that_would_find_the_same_for_every_message_is_refused(
    url: str, statement: str, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        sql_row_exists(url, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM bookings WHERE uuid = :uuid",
        "SELECT max(seats) FROM bookings WHERE uuid = :uuid",
        "SELECT EXISTS(SELECT 1 FROM bookings WHERE uuid = :uuid)",
    ],
)
def test_a_row_that_says_no_is_not_taken_for_a_yes(url: str, statement: str) -> None:
    with pytest.raises(ConfigurationError, match="select rows, not counts"):
        ask(sql_row_exists(url, statement), "undone")


def test_a_row_of_several_columns_is_a_yes_whatever_it_holds(url: str) -> None:
    resolver = sql_row_exists(url, "SELECT seats, uuid FROM bookings WHERE uuid = :uuid")

    assert ask(resolver, "done").resolution is Resolution.DUPLICATE


def test_a_statement_that_writes_is_refused_and_undone(url: str) -> None:
    with pytest.raises(ConfigurationError, match="returns no rows"):
        ask(sql_row_exists(url, "DELETE FROM bookings WHERE uuid = :uuid"), "done")

    assert ask(sql_row_exists(url, BY_UUID), "done").resolution is Resolution.DUPLICATE


@pytest.mark.parametrize("statement", ["SELECT 1 FROM trips WHERE uuid = :uuid", "SELEKT :uuid"])
def test_a_statement_that_the_database_refuses_is_no_reason_to_try_again(url: str, statement: str) -> None:
    with pytest.raises(ConfigurationError, match="refused its statement") as raised:
        ask(sql_row_exists(url, statement), "done")

    assert not isinstance(raised.value, UnavailableError)


@pytest.mark.usefixtures("locked")
def test_a_locked_database_is_a_reason_to_try_again(url: str) -> None:
    with pytest.raises(EffectUnavailableError, match="looking for the effect of 'done'"):
        ask(sql_row_exists(f"{url}?timeout=0", BY_UUID), "done")


def test_a_file_that_cannot_be_opened_is_a_reason_to_try_again(tmp_path: Path) -> None:
    with pytest.raises(EffectUnavailableError):
        ask(sql_row_exists(f"sqlite:///{tmp_path}/absent/bookings.db", BY_UUID), "done")


def test_a_server_that_is_away_is_a_reason_to_try_again_and_keeps_its_password() -> None:
    url = f"postgresql://agent:secret@127.0.0.1:{closed_port()}/bookings"

    with pytest.raises(
        EffectUnavailableError, match=r"postgresql\+psycopg://127.0.0.1:\d+/bookings"
    ) as raised:
        ask(sql_row_exists(url, BY_UUID), "done")

    assert "secret" not in f"{raised.value} {raised.value.__cause__}"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("agent:secret@host", "not a database URL"),
        ("nosuch://agent:secret@host/db", "not a database URL"),
        ("sqlite+aiosqlite:///secret.db", "give create_async_engine"),
        ("mysql+pymysql://agent:secret@host/db", "pip install pymysql"),
    ],
)
def test_a_url_that_cannot_work_is_refused_without_being_repeated(url: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as raised:
        sql_row_exists(url, BY_UUID)

    assert "secret" not in f"{raised.value} {raised.value.__cause__}"


def test_a_url_is_connected_anew_for_each_question(url: str, file: Path) -> None:
    resolver = sql_row_exists(url, BY_UUID)
    assert ask(resolver, "done").resolution is Resolution.DUPLICATE
    restored = file.with_suffix(".backup")
    with closing(sqlite3.connect(restored)) as database:
        database.execute("CREATE TABLE bookings (uuid TEXT)")

    restored.replace(file)  # a kept connection would still read the old file

    assert ask(resolver, "done").resolution is Resolution.NEW


async def test_asyncio_tells_a_wrong_statement_from_a_busy_database_too(url: str, file: Path) -> None:
    engine = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"), connect_args={"timeout": 0})
    try:
        with pytest.raises(ConfigurationError, match="no such table: trips"):
            await sql_row_exists(engine, "SELECT 1 FROM trips WHERE uuid = :uuid")("x", "book", message("x"))
        with closing(sqlite3.connect(file)) as database:
            database.execute("BEGIN EXCLUSIVE")
            with pytest.raises(EffectUnavailableError):
                await sql_row_exists(engine, BY_UUID)("x", "book", message("x"))
    finally:
        await engine.dispose()
