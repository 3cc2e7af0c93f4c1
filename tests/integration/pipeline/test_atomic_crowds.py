"""Many atomic triggers run together, one inside another, and under serializable isolation."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.fixtures.waiting import PATIENCE
from triggers import ConfigurationError, Message, Status, Trigger, trigger

Make = Callable[..., Trigger[..., Any]]


@pytest.fixture
def made() -> Iterator[Make]:
    """Return a function that makes an atomic trigger of a service. All triggers are closed at the end."""
    triggers: list[Trigger[..., Any]] = []

    def make(service: Callable[..., Any], history: str, **settings: Any) -> Trigger[..., Any]:
        options: dict[str, Any] = {"name": "book", "transacted": True} | settings
        triggers.append(trigger("orders", history=history, **options)(service))
        return triggers[-1]

    yield make
    for one in triggers:
        one.close()


def do_nothing(message: Message) -> None:
    """Accept a message, without an effect."""


@pytest.mark.parametrize("crowd", [20, 50])
def test_as_many_services_as_asked_for_run_at_once(postgres_url: str, made: Make, crowd: int) -> None:
    together = Barrier(crowd)

    def book(message: Message, connection: Connection) -> None:
        connection.execute(text("SELECT 1"))
        together.wait(PATIENCE / 2)

    trigger_ = made(book, postgres_url)
    with ThreadPoolExecutor(crowd) as threads:
        outcomes = list(threads.map(trigger_.handle, [Message(uuid=f"u{n}", body="") for n in range(crowd)]))

    assert {(one.status, one.suspend) for one in outcomes} == {(Status.NEW, False)}


async def test_more_services_than_connections_wait_for_each_other(postgres_url: str, made: Make) -> None:
    most = running = 0

    async def book(message: Message, connection: AsyncConnection) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await connection.execute(text("SELECT 1"))
        running -= 1

    trigger_ = made(book, f"{postgres_url}&connections=2")
    outcomes = await asyncio.gather(*(trigger_.ahandle(Message(uuid=f"u{n}", body="")) for n in range(20)))

    assert {(one.status, one.suspend) for one in outcomes} == {(Status.NEW, False)}
    assert most <= 2
    await trigger_.aclose()


class TestOneInsideAnother:
    def test_sqlite_refuses_at_once_what_would_wait_for_itself(self, tmp_path: Path, made: Make) -> None:
        url = f"sqlite:///{tmp_path}/shop.sqlite3"
        inner = made(do_nothing, url, name="inner", transacted=False)

        def book(message: Message, connection: Connection) -> None:
            inner.handle(Message(uuid="inner-1", body=""))

        outcome = made(book, url).handle(Message(uuid="u1", body=""))

        assert isinstance(outcome.error, ConfigurationError)
        assert "inside an atomic service of the same SQLite database" in str(outcome.error)
        assert inner.handle(Message(uuid="inner-1", body="")).status is Status.NEW

    def test_postgresql_gives_it_a_transaction_of_its_own(self, postgres_url: str, made: Make) -> None:
        inner = made(do_nothing, postgres_url, name="inner", transacted=False)

        def book(message: Message, connection: Connection) -> None:
            inner.handle(Message(uuid="inner-1", body=""))
            raise ValueError(message.uuid)

        outcome = made(book, postgres_url).handle(Message(uuid="u1", body=""))

        assert isinstance(outcome.error, ValueError)
        assert inner.handle(Message(uuid="inner-1", body="")).status is Status.DUPLICATE

    def test_postgresql_does_not_wait_for_the_lock_of_the_transaction_around(
        self, postgres_url: str, made: Make
    ) -> None:
        inner: list[Any] = []

        def book(message: Message, connection: Connection) -> None:
            inner.append(again.handle(message))

        again = made(book, postgres_url)

        assert again.handle(Message(uuid="u1", body="")).status is Status.NEW
        assert [(one.executed, one.suspend) for one in inner] == [(False, True)]


def test_conflicts_of_serializable_transactions_suspend_nothing(postgres_url: str, made: Make) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("CREATE TABLE stock (left_over INTEGER); INSERT INTO stock VALUES (0)")

    def book(message: Message, connection: Connection) -> None:
        held = connection.execute(text("SELECT left_over FROM stock")).scalar_one()
        connection.execute(text("UPDATE stock SET left_over = :now"), {"now": held + 1})

    url = f"{postgres_url}%20-cdefault_transaction_isolation%3Dserializable"
    triggers = [made(book, url), made(do_nothing, url, name="plain", transacted=False)]
    messages = [
        (one, Message(uuid=f"u{n}", body="")) for n in range(30) for one in triggers for _ in range(2)
    ]

    def deliver(each: tuple[Trigger[..., Any], Message]) -> bool:
        """Deliver a message until it is acknowledged. Return whether the trigger was suspended meanwhile."""
        while True:
            outcome = each[0].handle(each[1])
            if outcome.acknowledge or outcome.suspend:
                return outcome.suspend

    with ThreadPoolExecutor(4) as threads:
        suspended = list(threads.map(deliver, messages))

    with psycopg.connect(postgres_url) as reader:
        assert reader.execute("SELECT left_over FROM stock").fetchone() == (30,)
    assert not any(suspended)
