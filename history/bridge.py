"""One source for blocking and asyncio.

Every algorithm of this project is written once, as ``async def``. Below it is a client that answers
immediately (a blocking driver), or with something to await (an asyncio driver). Two functions join the two
worlds:

- :func:`settled` awaits what can be awaited and returns everything else as it is, so that the same line
  serves both kinds of driver;
- :func:`drive` runs a coroutine that never suspends, in the calling thread and without an event loop. A
  coroutine over a blocking driver is of that kind. :func:`drive_each` does so for what yields many items.
"""

from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from typing import Any, TypeVar, cast

from history.errors import ConfigurationError

T = TypeVar("T")


class SuspendedError(ConfigurationError, RuntimeError):
    """A coroutine that ran without an event loop wanted to wait for one."""

    def __init__(self, coroutine: Coroutine[Any, Any, object]) -> None:
        name = getattr(coroutine, "__qualname__", repr(coroutine))
        super().__init__(
            str(name),
            "waits for an event loop, but was called from blocking code",
            "use the asyncio form (ahandle, AsyncConsumer), or give it a blocking store",
        )


async def settled(value: Awaitable[T] | T) -> T:
    """Return ``value``, awaited first if it can be awaited."""
    if hasattr(value, "__await__"):
        return await cast("Awaitable[T]", value)
    return value  # pyright: ignore[reportReturnType]  (mypy narrows by hasattr, pyright does not)


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run ``coroutine`` to its end in this thread, without an event loop.

    Raises:
        SuspendedError: the coroutine tried to wait. It is closed, so its ``finally`` blocks have run.
    """
    try:
        coroutine.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    coroutine.close()
    raise SuspendedError(coroutine)


def drive_each(items: AsyncIterator[T]) -> Iterator[T]:
    """Yield what ``items`` yields, and drive it one item at a time.

    Raises:
        SuspendedError: it tried to wait.
    """
    while True:
        try:
            item = drive(_next_of(items))
        except StopAsyncIteration:
            return
        yield item


async def _next_of(items: AsyncIterator[T]) -> T:
    return await anext(items)
