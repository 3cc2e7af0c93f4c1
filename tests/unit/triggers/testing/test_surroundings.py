"""Locks, threads and clocks of a simulated service: the simulator finds their bugs, or refuses by name."""

import asyncio
import datetime as dt
import functools
import multiprocessing
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date, datetime
from typing import Any

import pytest

from triggers import ConfigurationError, Message, trigger
from triggers.testing import Effects, exactly_once
from triggers.testing.simulator import course, subject, surroundings

pytestmark = pytest.mark.slow

MESSAGES = [Message(body={"id": "N-1"}, uuid="o-1")]
BANK = Effects()
LOCK, ASYNC_LOCK, CONDITION = threading.Lock(), asyncio.Lock(), threading.Condition()
POOL = ThreadPoolExecutor(1)
PROCESS_LOCK, LOCKS, LATE_LOCKS = (
    multiprocessing.Lock(),
    {"N-1": threading.Lock()},
    defaultdict[str, Any](threading.Lock),
)
LOCK_IN_A_TUPLE = (threading.Lock(),)
TURN, ASYNC_TURN, GATE = queue.Queue[Any](1), asyncio.Queue[Any](1), threading.Event()
NOW, TODAY = functools.partial(datetime.now, dt.UTC), date.today

Order = dict[str, Any]


class Desk:
    """A service that is an object, with a lock in a slot."""

    __slots__ = ("lock",)
    gate = threading.Semaphore()

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, order: Order) -> None:
        with self.lock, self.gate:
            BANK.record(order["id"])


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


def locked_for_processes(order: Order) -> None:
    PROCESS_LOCK.acquire()
    BANK.record(order["id"])
    PROCESS_LOCK.release()


def locked_by_key(order: Order) -> None:
    with LOCKS[order["id"]], LATE_LOCKS[order["id"]]:
        BANK.record(order["id"])


def alone(service: Callable[[Order], None]) -> Callable[[Order], None]:
    lock = threading.Lock()

    @functools.wraps(service)
    def wrapper(order: Order) -> None:
        with lock:
            service(order)

    return wrapper


@alone
def locked_by_a_decorator(order: Order) -> None:
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
    [
        locked,
        locked_elsewhere,
        locked_in_a_task,
        locked_for_processes,
        locked_by_key,
        locked_by_a_decorator,
        Desk(),
        SHOP.book,
        stamped,
        gathered,
    ],
    ids=lambda service: getattr(service, "__name__", "Desk"),
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


def by_a_text(order: Order) -> None:
    BANK.record_once((order["id"], time.strftime("%Y-%m-%d")))


def by_local_time(order: Order) -> None:
    BANK.record_once((order["id"], time.localtime().tm_yday))


def by_a_clock_of_the_system(order: Order) -> None:
    BANK.record_once((order["id"], time.clock_gettime(time.CLOCK_REALTIME) // 3600))


def by_a_bound_clock(order: Order) -> None:
    BANK.record_once((order["id"], NOW().date(), TODAY()))


def by_an_import_in_it(order: Order) -> None:
    from datetime import datetime as clock  # noqa: PLC0415  (it is tested)

    BANK.record_once((order["id"], clock.now(dt.UTC).date()))


class Key:
    """A class that names a clock."""

    def __init__(self, order: Order) -> None:
        self.key = (order["id"], datetime.now(dt.UTC).date())


def by_a_class(order: Order) -> None:
    BANK.record_once(Key(order).key)


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
    [
        by_the_hour,
        by_the_day,
        by_a_module,
        by_seconds,
        by_a_text,
        by_local_time,
        by_a_clock_of_the_system,
        by_a_bound_clock,
        by_an_import_in_it,
        by_a_class,
        remembered_for_an_hour,
    ],
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


def turned(order: Order) -> None:
    TURN.put(order)
    BANK.record_once(order["id"])
    TURN.get()


def gated(order: Order) -> None:
    GATE.wait()
    GATE.clear()
    BANK.record_once(order["id"])
    GATE.set()


async def turned_in_a_task(order: Order) -> None:
    await ASYNC_TURN.put(order)
    BANK.record_once(order["id"])
    await ASYNC_TURN.get()


@pytest.mark.parametrize("service", [turned, gated, turned_in_a_task], ids=lambda s: s.__name__)
def test_a_service_that_waits_for_ever_is_refused(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (course, subject, surroundings):
        monkeypatch.setattr(module, "STUCK", 0.2)
    made = trigger("orders", name="book", in_doubt="execute")(service)

    with pytest.raises(ConfigurationError) as refused:
        exactly_once(made, MESSAGES, effects=BANK, reset=GATE.set)

    assert refused.value.setting == "trigger"


def test_a_lock_that_cannot_be_replaced_is_refused_by_name() -> None:
    @trigger("orders", name="book")
    def book(order: Order) -> None:
        with LOCK_IN_A_TUPLE[0]:
            BANK.record(order["id"])

    with pytest.raises(ConfigurationError, match="LOCK_IN_A_TUPLE") as refused:
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
