"""Offsets grow in the order of commits, and the operations of one transaction stay together."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from history.bridge import drive
from history.errors import ConfigurationError
from history.sql.links.history import LinkHistory
from history.store.watermark import MAX_OFFSET, Offset
from tests.fixtures.databases import engine_at
from tests.fixtures.threads import in_threads
from tests.integration.providers.sqlremote.link_ends import ORDERS
from triggers.providers.sqlremote.publication.log import LinkLog

UPTO = MAX_OFFSET


@pytest.fixture
def url(link_databases: list[str]) -> str:
    return link_databases[0]


@pytest.fixture
def history(url: str) -> Iterator[LinkHistory]:
    opened = LinkHistory.from_url(url)
    drive(opened.watermarks.end())
    yield opened
    drive(opened.close())


@pytest.fixture
def engine(url: str, history: LinkHistory) -> Iterator[Engine]:
    opened = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    yield opened
    opened.dispose()


def committed(history: LinkHistory, after: int = 0) -> list[tuple[int, bytes]]:
    log = LinkLog(history.watermarks, "orders", "peer")
    return [(one.offset, one.data) for one in drive(log.read(Offset(after), UPTO))]


def test_what_one_transaction_appends_stays_together(engine: Engine, history: LinkHistory) -> None:
    with engine.connect() as connection:
        ORDERS.append(connection, "a")
        ORDERS.append(connection, "b", "c")
        connection.commit()
        ORDERS.append(connection, "d")
        connection.commit()

    assert committed(history) == [(1, b'["a","b","c"]'), (2, b'["d"]')]


def test_a_rollback_leaves_neither_operation_nor_gap(engine: Engine, history: LinkHistory) -> None:
    with engine.connect() as connection:
        ORDERS.append(connection, "a")
        connection.rollback()
        ORDERS.append(connection, "b")
        connection.commit()

    assert committed(history) == [(1, b'["b"]')]


def test_a_savepoint_takes_back_only_what_is_its_own(engine: Engine, history: LinkHistory) -> None:
    with engine.begin() as connection:
        nested = connection.begin_nested()
        ORDERS.append(connection, "a")
        nested.rollback()
        ORDERS.append(connection, "b")
        nested = connection.begin_nested()
        ORDERS.append(connection, "c")
        nested.rollback()
        ORDERS.append(connection, "d")

    assert committed(history) == [(1, b'["b","d"]')]


def test_an_offset_that_a_savepoint_took_back_may_belong_to_another_transaction(postgres_url: str) -> None:
    history = LinkHistory.from_url(postgres_url)
    drive(history.watermarks.end())
    with engine_at(postgres_url) as engine, engine.connect() as first, engine.connect() as second:
        first.execute(text("SELECT 1"))
        nested = first.begin_nested()
        ORDERS.append(first, "a")
        nested.rollback()
        ORDERS.append(second, "b")
        second.commit()
        ORDERS.append(first, "c")
        ORDERS.append(first, "d")
        first.commit()

    assert committed(history) == [(1, b'["b"]'), (2, b'["c","d"]')]
    drive(history.close())


def test_a_transaction_that_a_text_ends_is_noticed(engine: Engine, history: LinkHistory) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        with pytest.raises(ConfigurationError, match="no transaction"):
            ORDERS.append(connection, "alone")
        for operation in ("a", "b"):
            connection.execute(text("BEGIN"))
            ORDERS.append(connection, operation)
            connection.execute(text("COMMIT"))

    assert committed(history) == [(1, b'["a"]'), (2, b'["b"]')]


def test_offsets_grow_in_the_order_of_commits(engine: Engine, history: LinkHistory) -> None:
    offsets: dict[str, int] = {}
    order: list[str] = []
    begun = threading.Event()

    def commit_second() -> None:
        begun.wait()
        with engine.connect() as connection:
            offsets["second"] = ORDERS.append(connection, "second")
            connection.commit()
            order.append("second")

    thread = threading.Thread(target=commit_second)
    thread.start()
    with engine.connect() as connection:
        offsets["first"] = ORDERS.append(connection, "first")
        begun.set()
        order.append("first")
        connection.commit()
    thread.join()

    assert (order, offsets) == (["first", "second"], {"first": 1, "second": 2})


def test_many_writers_leave_a_log_without_holes(engine: Engine, history: LinkHistory) -> None:
    def write(name: int) -> None:
        for number in range(10):
            with Session(engine) as session:
                ORDERS.append(session, [name, number])
                session.commit()

    in_threads(write, range(4))

    assert [offset for offset, _ in committed(history)] == list(range(1, 41))


async def test_an_asyncio_application_publishes_too(url: str, history: LinkHistory) -> None:
    named = url.replace("postgresql://", "postgresql+psycopg://").replace("sqlite://", "sqlite+aiosqlite://")
    engine = create_async_engine(named)
    async with engine.begin() as connection:
        await ORDERS.aappend(connection, "a")
        await ORDERS.aappend(connection, "b")
    await engine.dispose()

    assert committed(history) == [(1, b'["a","b"]')]


def test_what_is_no_json_is_refused_before_anything_is_written(engine: Engine, history: LinkHistory) -> None:
    with engine.begin() as connection, pytest.raises(ConfigurationError, match="is not a JSON value"):
        ORDERS.append(connection, "a", object())

    assert committed(history) == []


def test_a_long_log_is_read_page_by_page(engine: Engine, history: LinkHistory) -> None:
    with engine.begin() as connection:
        ORDERS.append(connection, *range(150))
    for number in range(120):
        with engine.begin() as connection:
            ORDERS.append(connection, number)
    log = LinkLog(history.watermarks, "orders", "peer")

    read: list[int] = []
    while page := drive(log.read(Offset(read[-1] if read else 0), UPTO)):
        read += [one.offset for one in page]

    assert read == list(range(1, 122))
