"""One source for blocking and asyncio: which coroutines ``drive`` runs without an event loop."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from history.bridge import SuspendedError, drive, drive_each, settled
from history.errors import ConfigurationError
from history.support.paging import pages


async def double(number: int) -> int:
    return 2 * await settled(number)


async def wait(log: list[str]) -> None:
    try:
        await asyncio.sleep(0)
    finally:
        log.append("closed")


def test_what_is_no_awaitable_settles_as_it_is() -> None:
    assert drive(settled(None)) is None
    assert drive(settled([1])) == [1]


async def test_what_is_an_awaitable_is_awaited() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 3)

    doubled: int = await settled(double(2))
    awaited: int = await settled(future)

    assert (doubled, awaited) == (4, 3)


async def test_it_may_be_driven_inside_a_running_loop() -> None:
    assert drive(double(2)) == 4


def test_what_it_raises_comes_out_untouched() -> None:
    failure = LookupError("no such order")

    async def failing() -> None:
        raise failure

    with pytest.raises(LookupError) as caught:
        drive(failing())

    assert caught.value is failure


def test_one_that_wants_to_wait_is_closed_and_refused_with_the_remedy() -> None:
    log: list[str] = []

    with pytest.raises(
        SuspendedError, match=r"wait: waits for an event loop, .*use the asyncio form"
    ) as caught:
        drive(wait(log))

    assert log == ["closed"]
    assert isinstance(caught.value, ConfigurationError)


class Page(NamedTuple):
    number: int
    cursor: str | None


def test_pages_are_read_one_after_the_other_and_none_before_it_is_wanted() -> None:
    asked: list[str | None] = []

    async def read(cursor: str | None) -> Page:
        asked.append(cursor)
        number = await settled(len(asked))
        return Page(number, None if number == 3 else str(number))

    walk = drive_each(pages(read))

    assert next(walk).number == 1
    assert asked == [None]
    assert [page.number for page in walk] == [2, 3]
    assert asked == [None, "1", "2"]


def test_a_walk_that_wants_to_wait_is_refused_at_the_item_that_does() -> None:
    log: list[str] = []

    async def items() -> AsyncIterator[int]:
        yield 1
        await wait(log)
        yield 2

    walk = drive_each(items())

    assert next(walk) == 1
    with pytest.raises(SuspendedError):
        next(walk)
    assert log == ["closed"]
