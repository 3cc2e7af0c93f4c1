"""Results that can be read only once: their service has not done its work yet, or cannot share it."""

import io
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
from pydantic import BaseModel

from history import MemoryHistory
from triggers import LazyResultError, Message, Status, trigger
from triggers.guards import protect


async def nothing() -> None:
    raise AssertionError("must not run")


async def many() -> AsyncIterator[int]:
    yield 1


def work() -> Iterator[int]:
    raise AssertionError("must not run")
    yield 1


def submitted() -> Future[None]:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(print, end="")


LAZY: list[Callable[[], Any]] = [
    work,
    many,
    lambda: map(str, [1]),
    lambda: filter(None, [1]),
    lambda: chain([1], [2]),
    lambda: iter([1]),
    Future[None],
    submitted,
]


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("result", LAZY)
def test_a_service_that_returns_work_to_be_done_has_failed(result: Callable[[], Any], *, keeps: bool) -> None:
    @trigger("orders", name="book", history=MemoryHistory(), keep_result=keeps)
    def book(message: Message) -> Any:
        del message
        return result()

    first, copy = [book.handle(Message(uuid="order-1", body=None)) for _ in range(2)]

    assert isinstance(first.error, LazyResultError)
    assert (first.parked, first.result) == (True, None)
    assert (copy.status, copy.executed) == (Status.DUPLICATE, False)


@pytest.mark.parametrize(
    "result", [*LAZY, lambda: io.StringIO("a"), lambda: sqlite3.connect(":memory:").cursor()]
)
def test_a_kept_result_can_be_read_more_than_once(result: Callable[[], Any]) -> None:
    guard = protect("book", history=MemoryHistory(), keep_result=True)

    outcome = guard.handle("order-1", result)
    with guard.once("order-2") as turn:
        turn.result = result()

    assert isinstance(outcome.error, LazyResultError)
    assert turn.outcome is not None
    assert isinstance(turn.outcome.error, LazyResultError)


class Page(BaseModel):
    rows: Any


@dataclass
class Pages:
    rows: Any


#: What a result may have around an iterator.
AROUND: list[Callable[[Any], Any]] = [
    lambda rows: [rows],
    lambda rows: (1, rows),
    lambda rows: {"pages": [{"rows": rows}]},
    lambda rows: Page(rows=rows),
    lambda rows: [Pages(rows)],
    lambda rows: deque([rows]),
]


@pytest.mark.parametrize("around", AROUND, ids=["list", "tuple", "dict", "model", "dataclass", "deque"])
def test_an_iterator_inside_a_result_is_left_to_the_caller(around: Callable[[Any], Any]) -> None:
    guard, rows = protect("book", history=MemoryHistory(), keep_result=True), iter([1, 2])

    first, copy = [guard.handle("order-1", lambda: around(rows)) for _ in range(2)]

    assert (first.executed, list(rows)) == (True, [1, 2])
    assert (copy.status, copy.result_kept, copy.result) == (Status.DUPLICATE, False, None)


def test_a_cursor_whose_statement_was_done_goes_to_the_caller() -> None:
    cursor = sqlite3.connect(":memory:").execute("SELECT 1")

    outcome = protect("book", history=MemoryHistory()).handle("order-1", lambda: cursor)

    assert (outcome.status, outcome.result) == (Status.NEW, cursor)


async def test_under_asyncio_a_future_of_another_thread_is_refused() -> None:
    async def charge() -> Future[None]:
        return submitted()

    outcome = await protect("book", history=MemoryHistory()).ahandle("order-1", charge)

    assert isinstance(outcome.error, LazyResultError)
    assert "future.result()" in str(outcome.error)


async def test_what_a_coroutine_function_returns_is_not_awaited_later() -> None:
    async def charge() -> Coroutine[Any, Any, None]:
        return nothing()

    outcome = await protect("book", history=MemoryHistory()).ahandle("order-1", charge)

    assert isinstance(outcome.error, LazyResultError)
    assert outcome.parked


def test_in_shadow_a_lazy_result_goes_to_its_caller() -> None:
    guard = protect("book", history=MemoryHistory(), shadow=True)

    assert list(guard.handle("order-1", lambda: map(str, [1])).result) == ["1"]
