"""Prefetched messages of an atomic trigger share a transaction, but each has its own outcome."""

from collections.abc import Callable
from contextlib import closing

import pytest
from sqlalchemy import Connection, text

from tests.fixtures.waiting import eventually
from tests.integration.helpers.atomic_shop import Make, Shop, insert, shop_at
from tests.integration.helpers.consumers import Running, send
from triggers import Consumer, FatalError, Message, Outcome, Trigger, trigger
from triggers.pipeline.sharing import pace

UUIDS = [f"u{number}" for number in range(10)]


@pytest.fixture(autouse=True)
def no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine count as quick."""
    monkeypatch.setattr(pace, "LONGEST", float("inf"))


QUEUE = "queue://orders"


def left(shop: Shop) -> int:
    with shop.engine.connect() as connection:
        return int(connection.execute(text("SELECT COUNT(*) FROM dms_queue_entry")).scalar_one())


def run_until(book: Trigger[..., None], shop: Shop, condition: Callable[[], bool]) -> None:
    with Running(Consumer([book], shop.url)):
        eventually(condition)


def test_several_are_committed_together(shop: Shop, made: Make) -> None:
    seen: list[int] = []

    def book(message: Message, connection: Connection) -> None:
        seen.append(len(shop.booked()))
        insert(message, connection)

    send(shop.url, QUEUE, *UUIDS)
    run_until(made(book, QUEUE), shop, lambda: left(shop) == 0)

    assert shop.booked() == UUIDS
    assert seen == [0, 1, 1, 3, 3, 3, 3, 7, 7, 7]


def test_what_one_did_is_undone_alone(shop: Shop, made: Make) -> None:
    runs: list[str | None] = []

    def book(message: Message, connection: Connection) -> None:
        runs.append(message.uuid)
        insert(message, connection)
        if message.uuid == "u5":
            raise FatalError("no such customer")

    send(shop.url, QUEUE, *UUIDS)
    run_until(made(book, QUEUE), shop, lambda: left(shop) == 0)

    assert shop.booked() == [uuid for uuid in UUIDS if uuid != "u5"]
    assert runs == UUIDS


def test_copies_are_duplicates_within_and_across_transactions(shop: Shop, made: Make) -> None:
    send(shop.url, QUEUE, *UUIDS, *UUIDS, "u1", "u1")
    run_until(made(insert, QUEUE), shop, lambda: left(shop) == 0)

    assert shop.booked() == UUIDS


def test_where_the_common_transaction_fails_each_has_one_of_its_own(postgres_url: str) -> None:
    @trigger(QUEUE, name="book", history=postgres_url, transacted=True)
    def book(message: Message, connection: Connection) -> None:
        connection.execute(text("INSERT INTO stock VALUES (:uuid)"), {"uuid": message.uuid})
        insert(message, connection)

    with shop_at(postgres_url) as shop, closing(book):
        with shop.engine.begin() as connection:
            # The failure appears only at the commit.
            connection.execute(text("CREATE TABLE stock (item TEXT UNIQUE DEFERRABLE INITIALLY DEFERRED)"))
            connection.execute(text("INSERT INTO stock VALUES ('u5')"))
        send(postgres_url, QUEUE, *UUIDS)
        # u5 shares a transaction with u3, u4 and u6.
        run_until(book, shop, lambda: {"u3", "u4"} <= set(shop.booked()))
        assert "u5" not in shop.booked()
        assert left(shop) >= 1


@pytest.mark.prove
def test_transactions_that_wait_for_each_other_lose_nothing_and_repeat_nothing(postgres_url: str) -> None:
    accounts = 3
    add = text("UPDATE accounts SET balance = balance + 1 WHERE id = :id")

    @trigger(QUEUE, name="book", history=postgres_url, transacted=True, concurrency=4)
    def book(message: Message, connection: Connection) -> None:
        one = int(message.uuid or "")
        for account in sorted({one % accounts, (one * 2 + 1) % accounts}):
            connection.execute(add, {"id": account})

    with shop_at(postgres_url) as shop, closing(book):
        with shop.engine.begin() as connection:
            connection.execute(text("CREATE TABLE accounts (id INT PRIMARY KEY, balance INT)"))
            connection.execute(text("INSERT INTO accounts SELECT n, 0 FROM generate_series(0, 2) n"))
        send(postgres_url, QUEUE, *[str(number) for number in range(60)])
        run_until(book, shop, lambda: left(shop) == 0)
        with shop.engine.connect() as connection:
            total = connection.execute(text("SELECT SUM(balance) FROM accounts")).scalar_one()
        assert total == 100


def test_a_duplicate_stays_in_the_queue_until_its_hook_was_called(shop: Shop, made: Make) -> None:
    told: list[str | None] = []

    def hook(message: Message, _: Outcome) -> None:
        told.append(message.uuid)
        if len(told) == 1:
            raise SystemExit("killed between the commit and the hook's end")

    send(shop.url, QUEUE, "u1", "u1")
    with pytest.raises(SystemExit):
        Consumer([made(insert, QUEUE, on_duplicate=hook)], shop.url).run(until_idle=0)
    assert left(shop) == 1
    run_until(made(insert, QUEUE, on_duplicate=hook), shop, lambda: left(shop) == 0)

    assert shop.booked() == ["u1"]
    assert told == ["u1", "u1"]
