"""Waking who waits in the same process, be it a thread or a task."""

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol


class Bell:
    """A lock, and changes under it; each change has a number, so that none is slept through."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.changes = 0
        self.wakers: set[Callable[[], object]] = set()

    def announce(self) -> None:
        """Wake all; with the lock held."""
        self.changes += 1
        self.changed.notify_all()
        for wake in self.wakers:
            wake()


class Wait(Protocol):
    """Waits for a change after ``seen``, at most so many seconds."""

    async def __call__(self, bell: Bell, seen: int, seconds: float) -> None: ...  # noqa: D102


async def wait_in_thread(bell: Bell, seen: int, seconds: float) -> None:
    """Wait as :class:`Wait` says, and block the thread."""
    with bell.changed:
        bell.changed.wait_for(lambda: bell.changes != seen, seconds)


async def wait_in_loop(bell: Bell, seen: int, seconds: float) -> None:
    """Wait as :class:`Wait` says, and let the event loop go on."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(event.set)

    with bell.changed:
        if bell.changes != seen:
            return
        bell.wakers.add(wake)
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        pass
    finally:
        with bell.changed:
            bell.wakers.discard(wake)
