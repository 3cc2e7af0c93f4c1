"""What a producer does differently for blocking callers and under asyncio: waiting, turns, work beside it."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol

from history.bridge import drive

_log = logging.getLogger(__name__)

#: How long the end of a producer waits for what runs beside it, in seconds.
END_PATIENCE = 5.0

#: Destinations share so many turns, so that a turn need not be kept for each that was ever used.
_TURNS = 64

#: Work that runs beside the callers until the shell is over.
Work = Callable[[], Coroutine[Any, Any, None]]


class Flag(Protocol):
    """Raised once."""

    def set(self) -> object:
        """Raise it."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait until it is raised, at most so long, and tell whether it is."""
        ...


class Shell(Protocol):
    """Waiting, turns, and work beside the callers."""

    @property
    def blocking(self) -> bool:
        """Whether callers block; else they run on an event loop."""
        ...

    @property
    def over(self) -> bool:
        """Whether what runs beside the callers must end."""
        ...

    def turn(self, destination: str) -> AbstractAsyncContextManager[None]:
        """Wait until nobody else sends to this destination; while entered, nobody does."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def idle(self, seconds: float) -> None:
        """Wait, but not longer than until :meth:`wake` or the end."""
        ...

    def wake(self) -> None:
        """End an idle wait."""
        ...

    def flag(self) -> Flag:
        """Return a flag that is not raised."""
        ...

    def spawn(self, name: str, work: Work) -> None:
        """Run this beside the callers; it ends by itself when the shell is over."""
        ...

    async def end(self) -> None:
        """Wait a while until everything beside the callers has ended."""
        ...


class _ThreadFlag:
    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)


class ThreadShell:
    """For blocking callers: threads and their locks."""

    blocking = True

    def __init__(self) -> None:
        self._over = threading.Event()
        self._woken = threading.Event()
        self._turns = [threading.Lock() for _ in range(_TURNS)]
        self._threads: list[threading.Thread] = []

    @property
    def over(self) -> bool:
        """Whether :meth:`end` was called."""
        return self._over.is_set()

    @asynccontextmanager
    async def turn(self, destination: str) -> AsyncGenerator[None]:
        """Wait in this thread."""
        with self._turns[hash(destination) % _TURNS]:
            yield

    async def sleep(self, seconds: float) -> None:
        """Wait in this thread."""
        time.sleep(seconds)  # noqa: ASYNC251  (driven, without an event loop)

    async def idle(self, seconds: float) -> None:
        """Wait in this thread."""
        if not self.over:
            self._woken.wait(seconds)
        self._woken.clear()

    def wake(self) -> None:
        """End an idle wait."""
        self._woken.set()

    def flag(self) -> Flag:
        """Return a flag for threads."""
        return _ThreadFlag()

    def spawn(self, name: str, work: Work) -> None:
        """Run this in a daemon thread: a process that ends does not wait for it."""
        thread = threading.Thread(target=lambda: drive(_logged(name, work)), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    async def end(self) -> None:
        """Join the threads, for a while."""
        self._over.set()
        self._woken.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(END_PATIENCE)


class _TaskFlag:
    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
        return self._event.is_set()


class TaskShell:
    """For callers on one event loop: tasks."""

    blocking = False

    def __init__(self) -> None:
        self.over = False
        self._woken = asyncio.Event()
        self._turns = [asyncio.Lock() for _ in range(_TURNS)]
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def turn(self, destination: str) -> AsyncGenerator[None]:
        """Wait in this task."""
        async with self._turns[hash(destination) % _TURNS]:
            yield

    async def sleep(self, seconds: float) -> None:
        """Wait in this task."""
        await asyncio.sleep(seconds)

    async def idle(self, seconds: float) -> None:
        """Wait in this task."""
        if not self.over:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), seconds)
        self._woken.clear()

    def wake(self) -> None:
        """End an idle wait."""
        self._woken.set()

    def flag(self) -> Flag:
        """Return a flag for tasks."""
        return _TaskFlag()

    def spawn(self, name: str, work: Work) -> None:
        """Run this in a task."""
        self._tasks.append(asyncio.create_task(_logged(name, work), name=name))

    async def end(self) -> None:
        """Wait for the tasks for a while, then cancel them."""
        self.over = True
        self._woken.set()
        if not self._tasks:
            return
        _, left = await asyncio.wait(self._tasks, timeout=END_PATIENCE)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _logged(name: str, work: Work) -> None:
    """Run work that nobody waits for; what ends it is told, and never lost in silence."""
    try:
        await work()
    except Exception:  # noqa: BLE001  (there is nobody above to handle it)
        _log.exception("%s ended unexpectedly", name)
