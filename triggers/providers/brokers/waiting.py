"""Waiting for what another thread brings about: in a blocking thread, or on an event loop.

Some drivers need a thread of their own: heartbeats must go on while a service runs for ten minutes or holds
the event loop. What is asked of such a thread comes back as a ``concurrent.futures.Future``, and the two
functions here are all that differs between blocking callers and asyncio ones. Neither cancels the future:
what was asked is done, whether or not somebody still waits for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

#: Waits for a future, at most so many seconds; raises TimeoutError, or what the future raises.
Wait = Callable[["Future[Any]", float], Awaitable[Any]]


async def wait_in_thread(future: "Future[T]", seconds: float) -> T:
    """Wait in this thread."""
    return future.result(max(seconds, 0))


async def wait_in_loop(future: "Future[T]", seconds: float) -> T:
    """Wait in this task; the event loop goes on."""
    return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), max(seconds, 0))


def fulfil(future: "Future[T]", result: T) -> None:
    """Give a future its result, unless it has one."""
    with suppress(InvalidStateError):
        future.set_result(result)


def fail(future: "Future[Any]", error: BaseException) -> None:
    """Give a future its error, unless it has one."""
    with suppress(InvalidStateError):
        future.set_exception(error)
