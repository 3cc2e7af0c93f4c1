"""Locks, threads and clocks of a simulated service: the simulator finds their bugs, or refuses by name."""

import asyncio
import datetime as dt
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date, datetime
from typing import Any

import pytest

from triggers import ConfigurationError, Message, trigger
from triggers.testing import Effects, exactly_once

pytestmark = pytest.mark.slow

MESSAGES = [Message(body={"id": "N-1"}, uuid="o-1")]
BANK = Effects()
LOCK, ASYNC_LOCK, CONDITION = threading.Lock(), asyncio.Lock(), threading.Condition()
POOL = ThreadPoolExecutor(1)

Order = dict[str, Any]


class Shop:
    """A service with its own lock and cache."""

    def __init__(self) -> None:
        self.lock, self.seen = threading.RLock(), set[str]()

    def book(self, order: Order) -> None:
        with self.lock:
            BANK.record_once(order["id"])
            self.seen.add(order["id"])


SHOP = Shop()


def locked(order: Order) -> None:
    with LOCK:
        BANK.record(order["id"])


def locked_elsewhere(order: Order) -> None:
    SHOP.book(order)


async def locked_in_a_task(order: Order) -> None:
    async with ASYNC_LOCK:
        BANK.record(order["id"])


def stamped(order: Order) -> None:
    """Give its effect a name with the time in whole seconds."""
    assert isinstance(datetime.now(tz=dt.UTC), datetime)
    assert isinstance(datetime.fromisoformat("2026-01-31"), datetime)
    BANK.record((order["id"], int(time.time())))


def gathered(order: Order) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in as_completed([pool.submit(BANK.record, order["id"])]):
            done.result()


@pytest.mark.parametrize(
    "service",
    [locked, locked_elsewhere, locked_in_a_task, SHOP.book, stamped, gathered],
    ids=lambda s: s.__name__,
)
def test_a_correct_service_is_found_correct(service: Any) -> None:
    report = exactly_once(trigger("orders", name="book")(service), MESSAGES, effects=BANK)

    assert (report.lost, report.doubled) == ([], [])


def by_the_hour(order: Order) -> None:
    BANK.record_once(f"{order['id']} {datetime.now():%Y-%m-%d %H}")  # noqa: DTZ005  (as many do)


def by_the_day(order: Order) -> None:
    BANK.record_once((order["id"], date.today()))  # noqa: DTZ011  (as many do)


def by_a_module(order: Order) -> None:
    BANK.record_once((order["id"], dt.datetime.now(dt.UTC).date()))


def by_seconds(order: Order) -> None:
    BANK.record_once((order["id"], time.time_ns() // (3600 * 10**9)))


SENT: dict[str, float] = {}


def remembered_for_an_hour(order: Order) -> None:
    """Take an order for a new one after its token has expired."""
    sent = SENT.setdefault(order["id"], time.time())
    if time.time() - sent < 3600:
        BANK.record_once(order["id"])
    else:
        BANK.record_once((order["id"], "again"))


@pytest.mark.parametrize(
    "service",
    [by_the_hour, by_the_day, by_a_module, by_seconds, remembered_for_an_hour],
    ids=lambda s: s.__name__,
)
def test_what_changes_with_time_is_found_doubled(service: Any) -> None:
    made = trigger("orders", name="book", in_doubt="execute")(service)

    assert exactly_once(made, MESSAGES, effects=BANK, reset=SENT.clear, keep=[SENT]).doubled


def in_a_thread(order: Order) -> None:
    threading.Thread(target=lambda: BANK.record(order["id"])).start()


def in_a_pool(order: Order) -> None:
    POOL.submit(BANK.record, order["id"])


@pytest.mark.parametrize("service", [in_a_thread, in_a_pool], ids=lambda s: s.__name__)
def test_an_effect_that_nobody_waits_for_is_found_lost(service: Any) -> None:
    assert exactly_once(trigger("orders", name="book")(service), MESSAGES, effects=BANK).lost


def test_what_waits_for_another_thread_is_refused_by_name() -> None:
    @trigger("orders", name="book")
    def book(order: Order) -> None:
        with CONDITION:
            BANK.record(order["id"])

    with pytest.raises(ConfigurationError, match="CONDITION") as refused:
        exactly_once(book, MESSAGES, effects=BANK)

    assert refused.value.setting == "trigger"


def test_everything_is_put_back() -> None:
    lock, clock = LOCK, datetime

    exactly_once(trigger("orders", name="book")(locked), MESSAGES, effects=BANK)
    exactly_once(trigger("orders", name="book")(stamped), MESSAGES, effects=BANK)

    assert LOCK is lock
    assert datetime is clock
    assert time.__name__ == "time"
    assert time.time() - time.time_ns() / 10**9 < 60
