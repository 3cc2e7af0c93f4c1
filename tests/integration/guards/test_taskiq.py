"""A guarded task of Taskiq runs with Taskiq's receiver and its broker in memory."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
from taskiq import Context, InMemoryBroker, SimpleRetryMiddleware, TaskiqDepends
from taskiq.exceptions import NoResultError, SendTaskError

from history import MemoryHistory
from tests.fixtures.waiting import PATIENCE
from triggers import TransientError
from triggers.guards import protect
from triggers.guards.taskiq import GivenUpError, guarded


def _itself(order: str) -> str:
    return order


class Shop:
    """A broker with a guard."""

    def __init__(self, *, inplace: bool = True) -> None:
        self.history = MemoryHistory()
        self.done: list[str] = []
        self.broker: Any = InMemoryBroker(await_inplace=inplace)
        self.broker.add_middlewares(SimpleRetryMiddleware(), guarded(history=self.history))

    def task(self, function: Callable[..., Any], name: str = "book", **labels: Any) -> Any:
        return self.broker.task(task_name=name, **labels)(function)

    async def run(self, task: Any, *args: Any, task_id: str = "one") -> Any:
        sent = await task.kicker().with_task_id(task_id).kiq(*args)
        return await sent.wait_result()

    async def parked(self) -> list[Any]:
        listed = await self.history.for_asyncio().parking.list()
        return [one.message.body for one in listed if one.message is not None]


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop = Shop()
    await shop.broker.startup()
    yield shop
    await shop.broker.shutdown()


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_task_that_comes_again_runs_once_and_answers_the_same(shop: Shop, *, blocking: bool) -> None:
    def book(order: str) -> str:
        shop.done.append(order)
        return f"booked {order}"

    async def abook(order: str) -> str:
        return book(order)

    task = shop.task(book if blocking else abook)
    first = await shop.run(task, "1")
    again = await shop.run(task, "1")

    assert shop.done == ["1"]
    assert (first.return_value, again.return_value) == ("booked 1", "booked 1")


@pytest.mark.parametrize("key", ["order", _itself])
async def test_a_key_makes_two_tasks_one(shop: Shop, key: Any) -> None:
    async def book(order: str, till: Any = TaskiqDepends(dict)) -> None:  # noqa: B008  (as Taskiq has it)
        assert till == {}
        shop.done.append(order)

    task = shop.task(book, uuid=key)
    await shop.run(task, "1")
    copy = await task.kiq("1")

    assert shop.done == ["1"]
    assert not await copy.is_ready(), "a copy under another id got a result"


async def test_what_taskiq_tries_again_runs_again(shop: Shop) -> None:
    async def flaky() -> str:
        shop.done.append("try")
        if len(shop.done) < 3:
            raise OSError("busy")
        return "done"

    result = await shop.run(shop.task(flaky, retry_on_error=True, max_retries=5))

    assert (result.return_value, len(shop.done)) == ("done", 3)
    assert await shop.parked() == []


async def test_a_task_that_puts_itself_back_runs_again() -> None:
    shop = Shop(inplace=False)
    await shop.broker.startup()

    async def picky(context: Context = TaskiqDepends()) -> str:  # noqa: B008  (as Taskiq has it)
        shop.done.append("try")
        if len(shop.done) < 2:
            await context.requeue()
        return "done"

    picky.__annotations__["context"] = Context
    result = await shop.run(shop.task(picky))

    await shop.broker.shutdown()
    assert (result.return_value, len(shop.done)) == ("done", 2)


async def test_a_task_that_puts_itself_back_inside_of_its_run_does_not_wait_for_itself(shop: Shop) -> None:
    async def picky(context: Context = TaskiqDepends()) -> str:  # noqa: B008  (as Taskiq has it)
        shop.done.append("try")
        await context.requeue()
        return "done"

    picky.__annotations__["context"] = Context
    async with asyncio.timeout(PATIENCE):
        result = await shop.run(shop.task(picky))

    assert shop.done == ["try"]
    assert isinstance(result.error, TransientError)
    assert str(result.error).startswith("book: one was not run: WAITING: an earlier run is still active; ")


async def test_a_task_that_wants_no_result_is_done(shop: Shop) -> None:
    async def silent() -> NoReturn:
        shop.done.append("run")
        raise NoResultError

    task = shop.task(silent)
    for _ in range(2):
        await task.kicker().with_task_id("one").kiq()

    assert shop.done == ["run"]
    assert await shop.parked() == []


async def test_what_taskiq_gives_up_is_parked_with_its_arguments(shop: Shop) -> None:
    async def broken(order: str) -> None:
        shop.done.append(order)
        raise ValueError("no such card")

    result = await shop.run(shop.task(broken, retry_on_error=True, max_retries=2), "1")

    assert isinstance(result.error, ValueError)
    assert shop.done == ["1", "1"]
    assert await shop.parked() == [{"task": "book", "args": ["1"], "kwargs": {}}]


async def test_what_nobody_can_know_is_no_run_and_is_parked(shop: Shop) -> None:
    with pytest.raises(KeyboardInterrupt):
        protect("book", history=shop.history, lease=None).handle("one", _die)

    result = await shop.run(shop.task(lambda: shop.done.append("run"), retry_on_error=True))

    assert isinstance(result.error, GivenUpError)
    assert shop.done == []
    assert len(await shop.parked()) == 1


def _die() -> None:
    raise KeyboardInterrupt


async def test_a_task_that_is_left_out_runs_each_time(shop: Shop) -> None:
    task = shop.task(lambda: shop.done.append("run"), guarded=False)
    for _ in range(2):
        await shop.run(task)

    assert shop.done == ["run", "run"]


async def test_a_plain_call_runs_the_function(shop: Shop) -> None:
    task = shop.task(lambda: shop.done.append("run"))
    await shop.run(task)
    task()
    task()

    assert shop.done == ["run"] * 3


@contextmanager
def refused(why: str) -> Generator[None]:
    """Expect the error that a broker in memory raises for a failure of its receiver."""
    with pytest.raises(SendTaskError) as caught:
        yield
    assert re.search(why, str(caught.value.__cause__))


@pytest.mark.parametrize("when", ["when_received", "manual"])
async def test_acknowledging_before_the_run_is_refused(shop: Shop, when: str) -> None:
    task = shop.task(lambda: shop.done.append("run"), ack_type=when)

    with refused(f"task book: ack_type: is {when}.*use when_saved"):
        await shop.run(task)
    assert shop.done == []


async def test_a_worker_that_acknowledges_before_the_run_is_refused(shop: Shop) -> None:
    from taskiq.acks import AcknowledgeType  # noqa: PLC0415  (only here)

    task = shop.task(lambda: shop.done.append("run"))
    shop.broker.receiver.ack_time = AcknowledgeType.WHEN_RECEIVED

    with refused("task book: ack_type: is when_received"):
        await shop.run(task)
    assert shop.done == []


async def test_a_pool_of_processes_is_refused(shop: Shop) -> None:
    task = shop.task(lambda: shop.done.append("run"))
    shop.broker.receiver.is_process_pool = True

    with refused("task book: --use-process-pool"):
        await shop.run(task)
