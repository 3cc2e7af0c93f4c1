"""If a guard of Dramatiq or Taskiq fails, the message comes again, or waits in its place."""

import asyncio
import sys
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import TimeLimitExceeded
from taskiq import InMemoryBroker

from history import MemoryHistory
from history.bridge import drive
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.guards.test_celery_recovering import Failing
from triggers.guards.dramatiq import guarded as dramatiq_guarded
from triggers.guards.dramatiq import middleware
from triggers.guards.taskiq import guarded as taskiq_guarded
from triggers.guards.taskiq import run


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "AWAY_FOR", 0.01)
    monkeypatch.setattr(run, "PAUSE", 0.01)


def test_a_bug_in_the_guard_has_a_message_of_dramatiq_sent_again() -> None:
    did: Counter[str] = Counter()
    history = Failing("claim", [RuntimeError("a bug"), RuntimeError("a bug")])

    def book(order: str) -> None:
        did[order] += 1

    _work_off(book, history)

    assert did == {"o-1": 1}
    assert not history.errors


def test_a_message_of_dramatiq_whose_guard_cannot_be_made_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    did: Counter[str] = Counter()
    looks = iter([True, True, False])

    def is_module_patched(name: str) -> bool:
        return name == "threading" and next(looks, False)

    def book(order: str) -> None:
        did[order] += 1

    green: Any = SimpleNamespace(is_module_patched=is_module_patched)
    monkeypatch.setitem(sys.modules, "gevent.monkey", green)
    _work_off(book, MemoryHistory())

    assert did == {"o-1": 1}
    assert next(looks, None) is None


def test_a_time_limit_of_dramatiq_leaves_a_message_in_doubt() -> None:
    did: Counter[str] = Counter()
    history = MemoryHistory()

    def book(order: str) -> None:
        did[order] += 1
        raise TimeLimitExceeded

    _work_off(book, history)

    assert did == {"o-1": 1}
    assert len(drive(history.parking.list())) == 1


def _work_off(function: Any, history: MemoryHistory) -> None:
    broker: Any = StubBroker(middleware=[])
    broker.emit_after("process_boot")
    broker.add_middleware(dramatiq_guarded(history=history, lease=None))
    one_worked_off(broker, dramatiq.actor(broker=broker, actor_name="book", uuid="order")(function))


def one_worked_off(broker: Any, actor: Any) -> None:
    """Send one message to an actor of Dramatiq, and work until no message is left."""
    worker: Any = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    try:
        actor.send("o-1")
        broker.join("default", fail_fast=False)
        worker.join()
    finally:
        worker.stop()
        broker.close()


async def test_a_bug_in_the_guard_has_a_task_of_taskiq_wait_in_its_place() -> None:
    did: Counter[str] = Counter()
    history = Failing("claim", [RuntimeError("a bug"), RuntimeError("a bug")])
    broker = InMemoryBroker()
    broker.add_middlewares(taskiq_guarded(history=history))

    @broker.task(task_name="book", uuid="order")
    async def book(order: str) -> None:
        did[order] += 1

    await broker.startup()
    result = await (await book.kiq("o-1")).wait_result(timeout=PATIENCE)
    await broker.shutdown()

    assert not result.is_err
    assert did == {"o-1": 1}


async def test_a_time_out_of_taskiq_leaves_a_task_in_doubt() -> None:
    did: Counter[str] = Counter()
    history = MemoryHistory()
    broker = InMemoryBroker()
    broker.add_middlewares(taskiq_guarded(history=history, lease=None))

    @broker.task(task_name="book", uuid="order", timeout=0.05)
    async def book(order: str) -> None:
        did[order] += 1
        await asyncio.Event().wait()

    await broker.startup()
    await book.kiq("o-1")
    await asyncio.to_thread(eventually, lambda: len(drive(history.parking.list())) == 1)
    await broker.shutdown()

    assert did == {"o-1": 1}


async def test_time_outs_of_a_broker_that_runs_tasks_in_place_end_only_their_task() -> None:
    did: Counter[str] = Counter()
    history = MemoryHistory()
    broker = InMemoryBroker(await_inplace=True)
    broker.add_middlewares(taskiq_guarded(history=history, lease=timedelta(seconds=2)))

    @broker.task(task_name="book", timeout=0.01)
    async def book(order: str) -> None:
        did[order] += 1
        await asyncio.Event().wait()

    @broker.task(task_name="ship")
    async def ship(order: str) -> str:
        return order

    await broker.startup()
    await book.kiq("o-1")
    parked = await history.parking.list()
    shipped = await (await ship.kiq("o-1")).wait_result(timeout=9)
    await broker.shutdown()

    assert did == {"o-1": 1}
    assert len(parked) == 1
    assert (shipped.is_err, shipped.return_value) == (False, "o-1")
