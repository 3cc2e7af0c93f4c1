"""Suspended consumers wake up correctly, and do not stop other consumers meanwhile."""

import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self

import pytest
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from history import Entry, HistoryUnavailableError, MemoryHistory
from history.bridge import drive
from tests.fixtures.histories import with_store
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, is_drained, parked_in, send
from triggers import FatalError, Message, TransientError, trigger
from triggers.consumer.options import AnyTrigger
from triggers.consumer.worker import RECEIVE_WAIT
from triggers.detection.suspension import Suspension
from triggers.pipeline.pipeline import Step
from triggers.providers.memory import MemoryProvider

#: How long a call of a worker waits for messages, in seconds.
WAIT = RECEIVE_WAIT.total_seconds()

#: A silent consumer counts as dead soon.
FAST = "?claim_idle=60&reclaim_interval=0.1"


def test_the_monitor_is_asked_until_it_agrees_and_one_that_raises_does_not(
    lane: Lane, redis_url: str
) -> None:
    answers: list[Exception | bool] = [RuntimeError("cannot tell"), False, True]
    asked: list[Exception | bool] = []
    runs: list[int] = []

    def monitor() -> bool:
        answer = answers[len(asked)]
        asked.append(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def work(message: Message) -> None:
        runs.append(message.delivery_count)
        if len(runs) == 1:
            raise TransientError

    orders = lane.trigger(
        "orders", work, on_retry_failure="suspend", monitor=monitor, monitor_interval=timedelta(seconds=0.2)
    )
    send(redis_url, "orders", "a")

    with lane.run([orders], redis_url + FAST, history=redis_url) as running:
        eventually(lambda: is_drained(redis_url, "orders"))

    assert (len(asked), runs) == (3, [1, 2])
    assert running.counts == {"orders": {"recovered": 1, "ok": 1}}


def test_until_idle_does_not_end_a_suspended_consumer(lane: Lane, redis_url: str) -> None:
    available = threading.Event()

    def work(_: Message) -> None:
        if not available.is_set():
            raise TransientError

    orders = lane.trigger(
        "orders",
        work,
        on_retry_failure="suspend",
        monitor=available.is_set,
        monitor_interval=timedelta(seconds=0.1),
    )
    send(redis_url, "orders", "waits")

    with lane.run([orders], redis_url, history=redis_url, until_idle=0.2) as running:
        eventually(lambda: running.gates[0].suspended)
        time.sleep(1)  # in this time it must not end
        assert running.alive
        available.set()
        running.join()

    assert running.counts == {"orders": {"recovered": 1, "ok": 1}}


def test_a_monitor_that_hangs_does_not_keep_the_consumer_from_ending(
    lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.consumer.core.HOUSEKEEPING_PATIENCE", 0.2)
    asked, may_end = threading.Event(), threading.Event()

    def hang() -> bool:
        asked.set()
        return may_end.wait(PATIENCE)

    def fail(_: Message) -> None:
        raise TransientError

    orders = lane.trigger("orders", fail, on_retry_failure="suspend", monitor=hang)
    send(redis_url, "orders", "a")

    with lane.run([orders], redis_url, history=redis_url) as running:
        asked.wait(PATIENCE)
        running.stop()
        running.join()
    may_end.set()

    assert running.counts == {"orders": {"recovered": 1}}


@pytest.mark.parametrize("history_url", ["sqlite", "redis"], indirect=True)
@pytest.mark.parametrize(
    ("transacted", "step"),
    [
        (False, Step.PUBLISHED),
        (False, Step.PARKED),
        (False, Step.COMPLETED),
        (False, Step.ANSWERED),
        (True, Step.COMPLETED),
        (True, Step.ANSWERED),
    ],
)
def test_a_process_that_dies_after_a_fatal_failure_leaves_its_trigger_held(
    lane: Lane, history_url: str, step: Step, *, transacted: bool
) -> None:
    def fail(_: Message) -> None:
        raise FatalError("no such customer")

    orders = lane.trigger("orders", fail, suspend_on_error=True, transacted=transacted)

    assert is_held_after_death(step, orders, lane, history_url)


@pytest.mark.parametrize("history_url", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("step", [Step.COMPLETED, Step.ANSWERED])
def test_an_atomic_trigger_is_held_by_the_transaction_that_records_its_failure(
    lane: Lane, history_url: str, step: Step
) -> None:
    options: Any = {
        "name": "orders",
        "history": history_url,
        "transacted": True,
        "suspend_on_error": True,
        "local_parking_file": lane.folder / "parked.sqlite3",
    }

    def service(message: Message, connection: Connection) -> None:
        raise FatalError("no such customer")

    async def async_service(message: Message, connection: AsyncConnection) -> None:
        raise FatalError("no such customer")

    made = trigger("orders", **options)
    orders: AnyTrigger = made(async_service) if lane.asyncio else made(service)

    assert is_held_after_death(step, orders, lane, history_url)


def is_held_after_death(step: Step, orders: AnyTrigger, lane: Lane, history: str) -> bool:
    """Let the consumer die at a step of its first message; return whether its trigger is held after that."""

    class DiedError(BaseException): ...

    def observe(reached: Step) -> None:
        if reached is step:
            raise DiedError

    provider = MemoryProvider()
    drive(provider.send("orders", [Message(uuid="a", body="")]))
    with (
        pytest.raises(DiedError),
        lane.run([orders], provider, history=history, observe=observe) as running,
    ):
        running.join()
    return with_store(history, lambda store: store.control.overview()).held("orders") is not None


def test_a_suspension_costs_the_messages_behind_it_one_delivery_however_many_workers_wait(
    lane: Lane,
) -> None:
    counts: dict[str | None, int] = {}
    may_fail, failed = threading.Event(), threading.Event()

    def work(message: Message) -> None:
        if not failed.is_set():
            may_fail.wait(PATIENCE)
            failed.set()
            raise TransientError
        counts[message.uuid] = message.delivery_count

    orders = lane.trigger("orders", work, on_retry_failure="suspend", concurrency=8, prefetch=20)
    provider = MemoryProvider()
    drive(provider.send("orders", [Message(uuid=str(number), body="") for number in range(20)]))

    with lane.run([orders], provider, history=MemoryHistory()) as running:
        may_fail.set()
        eventually(lambda: running.gates[0].suspended)
        stays_suspended = time.monotonic() + 2 * WAIT
        eventually(lambda: time.monotonic() > stays_suspended)
        running.gates[0].resume(by_command=True)
        eventually(lambda: len(counts) == 20)

    # The first one failed. At its end, before the trigger is suspended, another worker may receive it.
    assert {count for uuid, count in counts.items() if uuid != "0"} == {2}


@pytest.mark.parametrize("ordered", [False, True])
def test_a_message_that_always_suspends_its_trigger_is_rejected_alone(
    lane: Lane,
    redis_url: str,
    ordered: bool,  # noqa: FBT001
) -> None:
    ran: list[str | None] = []

    def work(message: Message) -> None:
        if message.uuid == "0":
            raise TransientError
        ran.append(message.uuid)

    orders = lane.trigger(
        "orders", work, on_retry_failure="suspend", max_delivery_count=3, prefetch=10, ordered=ordered
    )
    uuids = [str(number) for number in range(10)]
    send(f"{redis_url}{FAST}", "orders", *uuids)

    with lane.run([orders], f"{redis_url}{FAST}", history=redis_url) as running:
        for _ in range(3):
            eventually(lambda: running.gates[0].suspended)
            # Then all that was given back is due again, and is fetched with the message that suspends.
            time.sleep(3 * WAIT)
            running.gates[0].resume(by_command=True)
        eventually(lambda: is_drained(redis_url, "orders"))

    assert sorted(ran, key=str) == uuids[1:]
    assert [parked.uuid for parked in parked_in(redis_url, "orders")] == ["0"]


def test_a_stop_costs_the_messages_behind_it_one_delivery_however_many_workers_wait(lane: Lane) -> None:
    counts: dict[str | None, int] = {}
    begun, may_end = threading.Event(), threading.Event()

    def work(message: Message) -> None:
        begun.set()
        may_end.wait(PATIENCE)
        counts[message.uuid] = message.delivery_count

    orders = lane.trigger("orders", work, concurrency=8, prefetch=20)
    provider = MemoryProvider()
    drive(provider.send("orders", [Message(uuid=str(number), body="") for number in range(20)]))

    with lane.run([orders], provider, history=(history := MemoryHistory())) as first:
        assert begun.wait(PATIENCE)
        first.stop()
        may_end.set()
    assert len(counts) == 1
    with lane.run([orders], provider, history=history):
        eventually(lambda: len(counts) == 20)

    assert sorted(counts.values()) == [1, *[2] * 19]


def test_a_monitor_that_hangs_hides_no_outage_of_the_history(lane: Lane) -> None:
    hangs, may_end, away = threading.Event(), threading.Event(), threading.Event()

    class History(MemoryHistory):
        async def lookup(self, trigger: str, uuids: Sequence[str]) -> Sequence[Entry | None]:
            if away.is_set():
                raise HistoryUnavailableError("lookup")
            return await super().lookup(trigger, uuids)

        def for_asyncio(self) -> Self:
            return self

    def hang() -> bool:
        hangs.set()
        return may_end.wait(PATIENCE)

    def fail(_: Message) -> None:
        raise TransientError

    orders = lane.trigger("orders", fail, on_retry_failure="suspend", monitor=hang)
    provider = MemoryProvider()
    drive(provider.send("orders", [Message(uuid="a", body="")]))

    with lane.run([orders], provider, history=History()) as running:
        eventually(hangs.is_set)
        running.gates[0].resume(by_command=True)
        running.gates[0].suspend("for the test", Suspension.COMMAND)
        away.set()
        eventually(lambda: running.gates[0].history_away is not None)
        may_end.set()


def test_a_monitor_that_hangs_does_not_cost_another_service_its_message(lane: Lane, redis_url: str) -> None:
    asked, may_end = threading.Event(), threading.Event()

    def hang() -> bool:
        asked.set()
        return may_end.wait(PATIENCE)

    def fail(_: Message) -> None:
        raise TransientError

    def work(_: Message) -> None:
        asked.wait(PATIENCE)
        time.sleep(1.8)  # longer than a consumer may be silent

    returns = lane.trigger("returns", fail, on_retry_failure="suspend", monitor=hang)
    send(redis_url, "returns", "a")
    send(redis_url, "orders", "b")

    quick = redis_url + "?claim_idle=1.2&reclaim_interval=0.1"
    with lane.run([lane.trigger("orders", work), returns], quick, history=redis_url) as first:
        asked.wait(PATIENCE)
        with lane.run([lane.trigger("orders", work)], quick, history=redis_url) as second:
            eventually(lambda: is_drained(redis_url, "orders"))
        may_end.set()

    assert (first.counts["orders"], second.counts["orders"]) == ({"ok": 1}, {})
    assert parked_in(redis_url, "orders") == []
