"""Sample services with one bug each, and their correct twins: the simulator must tell them apart."""

import asyncio
import functools
import queue
import sqlite3
import threading
import time
import uuid as uuids
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from resolvers import Resolution
from triggers import Delivery, Message, Retry, TransientError, trigger
from triggers.testing import Effects, rows

ORDER = Message(body={"id": "N-1", "amount": 5}, uuid="order-1")
SECOND = Message(body={"id": "N-2", "amount": 7}, uuid="order-2")
NAMELESS = (Message(body={"id": "N-1", "shop": "A"}), Message(body={"id": "N-2", "shop": "A"}))
AT_ONCE = Retry(max_attempts=2, interval=timedelta(0))


@dataclass(frozen=True)
class Sample:
    """A trigger, the count of its effects, and the symptom of its bug: "doubled", "lost" or nothing."""

    trigger: Any
    effects: Any
    planted: str | None = None
    reset: Callable[[], object] | None = None
    messages: Sequence[Message] = (ORDER,)
    options: dict[str, Any] = field(default_factory=dict[str, Any])


def book(order: dict[str, Any]) -> None:
    LEDGER.record(order["id"])


LEDGER = Effects()


def looks(uuid: str, trigger_name: str, message: Message) -> Resolution:
    body: Any = message.body
    return Resolution.DUPLICATE if LEDGER.has(body["id"]) else Resolution.NEW


def says_new(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.NEW


def says_duplicate(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.DUPLICATE


def made(service: Callable[..., Any], **options: Any) -> Any:
    given: dict[str, Any] = {"name": "sample", **options}
    return trigger("orders", **given)(service)


def book_once(order: dict[str, Any]) -> None:
    LEDGER.record_once(order["id"])


def at_random(message: Message) -> str:
    return uuids.uuid4().hex


def by_the_clock(message: Message) -> str:
    return str(int(time.time()))


def by_shop(message: Message) -> str:
    body: Any = message.body
    return str(body["shop"])


def by_id(message: Message) -> str:
    body: Any = message.body
    return str(body["id"])


def of_settings(folder: Path) -> dict[str, Sample]:
    """Return samples with a bug in their settings."""
    return {
        "plain": Sample(made(book), LEDGER),
        "two messages": Sample(made(book), LEDGER, messages=(ORDER, SECOND)),
        "sent twice": Sample(made(book), LEDGER, messages=(ORDER, ORDER)),
        "resolver that looks": Sample(made(book, resolver=looks), LEDGER),
        "resolver says NEW": Sample(made(book, resolver=says_new), LEDGER, "doubled"),
        "resolver says DUPLICATE": Sample(made(book, resolver=says_duplicate), LEDGER, "lost"),
        "execute": Sample(made(book, in_doubt="execute"), LEDGER, "doubled"),
        "execute, idempotent": Sample(made(book_once, in_doubt="execute"), LEDGER),
        "acknowledge": Sample(made(book, in_doubt="acknowledge"), LEDGER, "lost"),
        "no detection": Sample(made(book, detect_duplicates=False), LEDGER, "doubled"),
        "acknowledged before": Sample(made(book, acknowledge_mode="auto"), LEDGER, "lost"),
        "no history": Sample(made(book, history=None), LEDGER, "doubled"),
        "no history, counts": Sample(made(book, history=None), LEDGER, options={"counts": "exact"}),
        "no lease beside a resolver": Sample(made(book, lease=None, resolver=looks), LEDGER, "doubled"),
        "no lease, no resolver": Sample(made(book, lease=None), LEDGER),
        "forgets soon": Sample(made(book, history_time_to_live=timedelta(minutes=5)), LEDGER, "doubled"),
        "forgets soon, and knows": Sample(
            made(book, history_time_to_live=timedelta(minutes=5), forgotten="in_doubt"), LEDGER
        ),
        "one delivery": Sample(made(book, max_delivery_count=1), LEDGER),
        "random identity": Sample(made(book, uuid=at_random), LEDGER, "doubled"),
        "identity of the time": Sample(made(book, uuid=by_the_clock), LEDGER, "doubled"),
        "identity of another": Sample(made(book, uuid=by_shop), LEDGER, "lost", messages=NAMELESS),
        "one document, two messages": Sample(
            made(book, uuid=by_id),
            LEDGER,
            messages=[
                one.model_copy(update={"message_id": name})
                for one, name in ((NAMELESS[0], "a"), (NAMELESS[0], "b"))
            ],
        ),
        "identity of its own": Sample(made(book, uuid=by_id), LEDGER, messages=NAMELESS),
        "paused": Sample(made(book, resolver=looks), LEDGER, "doubled", options={"pauses": True}),
        "paused, no resolver": Sample(made(book), LEDGER, options={"pauses": True}),
    }


def of_services(folder: Path) -> dict[str, Sample]:  # noqa: C901, PLR0915  (a list of samples)
    """Return samples with a bug in the service."""
    bank: list[str] = []
    seen: set[str] = set()
    pending = {"N-1"}

    def swallows(order: dict[str, Any]) -> None:
        with suppress(Exception):
            LEDGER.record(order["id"])

    def swallows_all(order: dict[str, Any]) -> None:
        with suppress(BaseException):  # planted: Ctrl-C counts as a success
            bank.append(order["id"])

    def fails_after(order: dict[str, Any]) -> None:
        bank.append(order["id"])
        if len(bank) == 1:
            raise TimeoutError("no answer")

    def fails_before(order: dict[str, Any], delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise TransientError("not yet")
        bank.append(order["id"])

    def two(order: dict[str, Any]) -> None:
        LEDGER.record(f"debit {order['id']}")
        LEDGER.record(f"letter {order['id']}")

    def two_idempotent(order: dict[str, Any]) -> None:
        LEDGER.record_once(f"debit {order['id']}")
        LEDGER.record_once(f"letter {order['id']}")

    def remembers(order: dict[str, Any]) -> None:
        if order["id"] in seen:
            return
        seen.add(order["id"])
        bank.append(order["id"])

    @functools.cache
    def known(name: str) -> list[str]:
        return []

    def caches(order: dict[str, Any]) -> None:
        if not known(order["id"]):
            known(order["id"]).append("x")
            bank.append(order["id"])

    def takes_away(order: dict[str, Any]) -> None:
        if order["id"] in pending:
            pending.remove(order["id"])
            bank.append(order["id"])

    def in_background(order: dict[str, Any]) -> None:
        threading.Thread(target=bank.append, args=(order["id"],)).start()

    def in_background_waited_for(order: dict[str, Any]) -> None:
        thread = threading.Thread(target=bank.append, args=(order["id"],))
        thread.start()
        thread.join()

    def slow(order: dict[str, Any]) -> None:
        time.sleep(3600)
        bank.append(order["id"])

    def tidies(order: dict[str, Any]) -> None:
        try:
            LEDGER.record(order["id"])
        finally:
            known.cache_clear()

    def reset() -> None:
        bank.clear()
        pending.add("N-1")

    def reset_seen() -> None:
        bank.clear()
        seen.clear()

    return {
        "swallows": Sample(made(swallows), LEDGER, "lost"),
        "swallows an interrupt": Sample(made(swallows_all), bank, "lost", bank.clear),
        "tidies": Sample(made(tidies), LEDGER),
        "fails after its effect": Sample(made(fails_after, retry=AT_ONCE), bank, "doubled", bank.clear),
        "fails before its effect": Sample(made(fails_before, retry=AT_ONCE), bank, reset=bank.clear),
        "retries two": Sample(made(two, retry=AT_ONCE), LEDGER, "doubled"),
        "retries two idempotent": Sample(made(two_idempotent, retry=AT_ONCE), LEDGER),
        "retries one": Sample(made(book, retry=AT_ONCE), LEDGER),
        "two, plain": Sample(made(two), LEDGER),
        "two, transacted": Sample(made(two, transacted=True), LEDGER, "doubled"),
        "one, transacted": Sample(made(book, transacted=True), LEDGER),
        "two idempotent, transacted": Sample(made(two_idempotent, transacted=True), LEDGER),
        "remembers in its process": Sample(
            made(remembers, history=None), lambda: len(bank), "doubled", reset_seen
        ),
        "caches": Sample(made(caches, detect_duplicates=False), bank, "doubled", bank.clear),
        "takes away": Sample(made(takes_away, resolver=says_new), lambda: bank, "lost", reset),
        "in the background": Sample(made(in_background), bank, "lost", bank.clear),
        "in the background, waited for": Sample(made(in_background_waited_for), bank, reset=bank.clear),
        "slow": Sample(made(slow), bank, reset=bank.clear),
    }


def of_coroutines(folder: Path) -> dict[str, Sample]:
    bank: list[str] = []

    async def books(order: dict[str, Any]) -> None:
        await asyncio.sleep(5)
        LEDGER.record(order["id"])

    async def swallows(order: dict[str, Any]) -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return
        bank.append(order["id"])

    def books_all(orders: list[dict[str, Any]]) -> None:
        for order in orders:
            LEDGER.record(order["id"])

    def books_all_once(orders: list[dict[str, Any]]) -> None:
        for order in orders:
            LEDGER.record_once(order["id"])

    both: dict[str, Any] = {"messages": (ORDER, SECOND)}
    return {
        "coroutine": Sample(made(books), LEDGER),
        "coroutine, resolver says NEW": Sample(made(books, resolver=says_new), LEDGER, "doubled"),
        "coroutine, resolver that looks": Sample(made(books, resolver=looks), LEDGER),
        "cancelled": Sample(made(swallows), bank, "lost", bank.clear),
        "batch": Sample(made(books_all, batch=10), LEDGER, **both),
        "half a batch, transacted": Sample(
            made(books_all, batch=10, transacted=True), LEDGER, "doubled", **both
        ),
        "half a batch, idempotent": Sample(made(books_all_once, batch=10, transacted=True), LEDGER, **both),
    }


def of_answers(folder: Path) -> dict[str, Sample]:
    """Return samples that start a thread and wait for its answer."""
    bank: list[str] = []

    def waits_for_a_queue(order: dict[str, Any]) -> None:
        answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=answers.put, args=(order["id"],)).start()
        bank.append(answers.get(timeout=0.01))

    def waits_for_an_event(order: dict[str, Any]) -> None:
        ready = threading.Event()
        threading.Thread(target=ready.set).start()
        if not ready.wait(timeout=0.01):
            raise TimeoutError("the thread does not answer")
        bank.append(order["id"])

    return {
        "event of a thread": Sample(made(waits_for_an_event), bank, reset=bank.clear),
        "queue of a thread": Sample(made(waits_for_a_queue), bank, reset=bank.clear),
    }


def of_tasks(folder: Path) -> dict[str, Sample]:
    bank: list[str] = []
    kept: set[asyncio.Task[None]] = set()

    async def later(name: str) -> None:
        await asyncio.sleep(5)
        bank.append(name)

    async def books_in_tasks(order: dict[str, Any]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(later(f"{order['id']}, paid"))
            tasks.create_task(later(f"{order['id']}, packed"))

    async def does_not_await(order: dict[str, Any]) -> None:
        task = asyncio.create_task(later(order["id"]))
        kept.add(task)
        task.add_done_callback(kept.discard)

    return {
        "in tasks": Sample(made(books_in_tasks), bank, reset=bank.clear),
        "not awaited": Sample(made(does_not_await), bank, "lost", bank.clear),
    }


def of_databases(folder: Path) -> dict[str, Sample]:
    """Return samples of atomic triggers, on a separate database."""
    shop, other = folder / "shop.sqlite3", folder / "other.sqlite3"
    for file in (shop, other):
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("CREATE TABLE books (id TEXT)")

    def atomic(order: dict[str, Any], connection: Connection) -> None:
        connection.execute(text("INSERT INTO books VALUES (:id)"), order)

    def elsewhere(order: dict[str, Any], connection: Connection) -> None:
        with closing(sqlite3.connect(other)) as database, database:
            database.execute("INSERT INTO books VALUES (?)", [order["id"]])

    def clear() -> None:
        for file in (shop, other):
            with closing(sqlite3.connect(file, timeout=30)) as database, database:
                database.execute("DELETE FROM books")

    history: dict[str, Any] = {"history": f"sqlite:///{shop}", "transacted": True}
    return {
        "atomic": Sample(
            made(atomic, **history), rows(f"sqlite:///{shop}", "books", key="id"), None, clear, options=FEW
        ),
        "atomic, elsewhere": Sample(
            made(elsewhere, **history), rows(f"sqlite:///{other}", "books"), "doubled", clear, options=FEW
        ),
    }


#: Fewer runs, because each run writes a file.
FEW = {"crashes": 1}

KINDS = (of_settings, of_services, of_coroutines, of_tasks, of_answers, of_databases)
