"""Prefetched messages of an atomic trigger: one transaction for several, and to each its own fate."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Running, send
from triggers import Consumer, FatalError, Message, Trigger, trigger
from triggers.pipeline.sharing import pace

INSERT = text("INSERT INTO effects VALUES (:uuid)")
UUIDS = [f"u{number}" for number in range(10)]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """One database for queue, history and effects."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.sqlite3"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE effects (uuid TEXT)"))
    yield engine
    engine.dispose()


@pytest.fixture(autouse=True)
def no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a machine that is busy with other things count as quick."""
    monkeypatch.setattr(pace, "LONGEST", float("inf"))


def booked(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return sorted(connection.execute(text("SELECT uuid FROM effects")).scalars())


def left(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT COUNT(*) FROM dms_queue_entry")).scalar_one())


def run_until(trigger_: Trigger[..., None], url: str, condition: Callable[[], bool]) -> None:
    with Running(Consumer([trigger_], url)):
        eventually(condition)
    trigger_.close()


def test_several_are_committed_together(url: str, engine: Engine) -> None:
    seen: list[int] = []

    @trigger("queue://orders", name="book", history=url, transacted=True)
    def book(message: Message, connection: Connection) -> None:
        seen.append(len(booked(engine)))
        connection.execute(INSERT, {"uuid": message.uuid})

    send(url, "queue://orders", *UUIDS)
    run_until(book, url, lambda: left(engine) == 0)

    assert booked(engine) == UUIDS
    assert seen == [0, 1, 1, 3, 3, 3, 3, 7, 7, 7]


def test_what_one_did_is_undone_alone(url: str, engine: Engine) -> None:
    runs: list[str | None] = []

    @trigger("queue://orders", name="book", history=url, transacted=True)
    def book(message: Message, connection: Connection) -> None:
        runs.append(message.uuid)
        connection.execute(INSERT, {"uuid": message.uuid})
        if message.uuid == "u5":
            raise FatalError("no such customer")

    send(url, "queue://orders", *UUIDS)
    run_until(book, url, lambda: left(engine) == 0)

    assert booked(engine) == [uuid for uuid in UUIDS if uuid != "u5"]
    assert runs == UUIDS


def test_copies_are_duplicates_within_and_across_transactions(url: str, engine: Engine) -> None:
    @trigger("queue://orders", name="book", history=url, transacted=True)
    def book(message: Message, connection: Connection) -> None:
        connection.execute(INSERT, {"uuid": message.uuid})

    send(url, "queue://orders", *UUIDS, *UUIDS, "u1", "u1")
    run_until(book, url, lambda: left(engine) == 0)

    assert booked(engine) == UUIDS


def test_where_the_common_transaction_fails_each_has_one_of_its_own(postgres_url: str) -> None:
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE effects (uuid TEXT)"))
        # Nobody notices before the commit.
        connection.execute(text("CREATE TABLE stock (item TEXT UNIQUE DEFERRABLE INITIALLY DEFERRED)"))
        connection.execute(text("INSERT INTO stock VALUES ('u5')"))

    @trigger("queue://orders", name="book", history=postgres_url, transacted=True)
    def book(message: Message, connection: Connection) -> None:
        connection.execute(text("INSERT INTO stock VALUES (:uuid)"), {"uuid": message.uuid})
        connection.execute(INSERT, {"uuid": message.uuid})

    try:
        send(postgres_url, "queue://orders", *UUIDS)
        # u5 shares a transaction with u3, u4 and u6.
        run_until(book, postgres_url, lambda: {"u3", "u4"} <= set(booked(engine)))
        assert "u5" not in booked(engine)
        assert left(engine) >= 1
    finally:
        engine.dispose()


@pytest.mark.prove
def test_transactions_that_wait_for_each_other_lose_nothing_and_repeat_nothing(postgres_url: str) -> None:
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    accounts = 3
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE accounts (id INT PRIMARY KEY, balance INT)"))
        connection.execute(text("INSERT INTO accounts SELECT n, 0 FROM generate_series(0, 2) n"))

    @trigger("queue://orders", name="book", history=postgres_url, transacted=True, concurrency=4)
    def book(message: Message, connection: Connection) -> None:
        assert message.uuid is not None
        one = int(message.uuid) % accounts
        for account in sorted({one, (one * 2 + 1) % accounts}):
            connection.execute(
                text("UPDATE accounts SET balance = balance + 1 WHERE id = :id"), {"id": account}
            )

    try:
        send(postgres_url, "queue://orders", *[str(number) for number in range(60)])
        run_until(book, postgres_url, lambda: left(engine) == 0)
        with engine.connect() as connection:
            total = connection.execute(text("SELECT SUM(balance) FROM accounts")).scalar_one()
        assert total == 100
    finally:
        engine.dispose()
