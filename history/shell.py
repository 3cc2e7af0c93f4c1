"""Waiting and running beside each other: with threads, for blocking callers, and with tasks, under asyncio.

Code that waits does so through a :class:`Shell`. So it is written once, as ``async def``, and is driven over
a :class:`ThreadShell` or awaited over a :class:`TaskShell` (see ``bridge.py``).
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from history.bridge import drive
from history.support.fair import FairSemaphore

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long a cancelled task waits for work that must end, in seconds: about as long as calls to an
#: unavailable history are retried.
PATIENCE = 2.0

#: How often a thread that joins others wakes up, in seconds. Python runs signal handlers in the main thread,
#: and does not wake it if another thread gets the signal, or if the signal comes as the wait begins.
JOIN_PAUSE = 0.2

#: Tasks that go on after their caller is gone: an event loop refers to its tasks only weakly.
_going_on: "set[asyncio.Task[Any]]" = set()

#: Work that runs beside its caller, until it is done or its shell is over.
Background = Callable[[], Coroutine[Any, Any, None]]


class Flag(Protocol):
    """One party sets it, others wait for it. Flags of a task shell belong to their event loop's thread."""

    def set(self) -> object:
        """Set it, and wake all that wait for it."""
        ...

    def clear(self) -> object:
        """Make it unset again."""
        ...

    def is_set(self) -> bool:
        """Whether it is set."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most ``seconds``; return whether it is set."""
        ...


class Lock(Protocol):
    """Only one holder at a time."""

    async def __aenter__(self) -> object:
        """Wait for the lock, and take it."""
        ...

    async def __aexit__(
        self, class_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Give the lock to the next waiter."""
        ...


class Semaphore(Lock, Protocol):
    """A lock that as many can hold as there are permits."""

    async def acquire(self) -> object:
        """Wait for a permit, and take it."""
        ...

    def release(self) -> object:
        """Give a permit back, or add one."""
        ...


class Shell(Protocol):
    """How one owner waits, and what runs beside it. All of this is awaited or driven."""

    @property
    def blocking(self) -> bool:
        """Whether waiting blocks the thread; if not, it suspends the task."""
        ...

    @property
    def over(self) -> Flag:
        """The owner sets it when everything in its shell must end."""
        ...

    def flag(self) -> Flag:
        """Return a flag that is not set."""
        ...

    def lock(self) -> Lock:
        """Return a lock."""
        ...

    def semaphore(self, permits: int) -> Semaphore:
        """Return a semaphore with ``permits`` permits: waiters get them in the order in which they came."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait ``seconds``, whatever happens."""
        ...

    async def call(self, name: str, function: Callable[[], T]) -> T:
        """Call a function that may take long; an event loop goes on meanwhile.

        ``name`` names the thread, if the shell starts one.
        """
        ...

    async def result(self, future: "Future[T]", seconds: float) -> T:
        """Wait for the result of another thread, at most ``seconds``; do not cancel the future.

        Raises:
            TimeoutError: it takes longer.
            BaseException: what the future raises.
        """
        ...

    def finish(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Do work to its end, even if the task that waits for it is cancelled meanwhile.

        The cancellation is raised after that, or after :data:`PATIENCE`: then the work goes on by itself.
        """
        ...

    def spawn(self, name: str, background: Background) -> None:
        """Run work beside the caller. If it raises, the error is logged, because nobody waits for it."""
        ...

    def cancel(self) -> None:
        """Cancel all work that was spawned. Threads cannot be cancelled: they end when the shell is over."""
        ...

    async def join(self, seconds: float | None = None) -> None:
        """Wait until all spawned work has ended, at most ``seconds``; then cancel the rest.

        If spawned work calls it, it does not wait for the caller.
        """
        ...


class _EventFlag:
    """The common part of the flags of threads and of tasks; only the waiting differs."""

    def __init__(self, event: threading.Event | asyncio.Event) -> None:
        self._any = event
        self.is_set = event.is_set

    def set(self) -> None:
        self._any.set()

    def clear(self) -> None:
        self._any.clear()


class _ThreadFlag(_EventFlag):
    def __init__(self) -> None:
        self._event = threading.Event()
        super().__init__(self._event)

    async def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)


class _ThreadLock:
    """A lock or a semaphore: both have ``acquire`` and ``release``."""

    def __init__(self, lock: "threading.Lock | FairSemaphore") -> None:
        self._lock = lock

    async def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    async def __aenter__(self) -> Self:
        self._lock.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class ThreadShell:
    """For blocking callers: waits in the calling thread, and runs in daemon threads.

    Daemon threads, because a process must not wait for them when its main thread ends.
    """

    blocking = True

    def __init__(self) -> None:
        self.over: Flag = _ThreadFlag()
        self._threads: list[threading.Thread] = []

    def flag(self) -> Flag:
        """Return a flag for threads."""
        return _ThreadFlag()

    def lock(self) -> Lock:
        """Return a lock for threads."""
        return _ThreadLock(threading.Lock())

    def semaphore(self, permits: int) -> Semaphore:
        """Return a semaphore for threads."""
        return _ThreadLock(FairSemaphore(permits))

    async def sleep(self, seconds: float) -> None:
        """Wait in this thread."""
        time.sleep(seconds)  # noqa: ASYNC251  (driven, without an event loop)

    async def call(self, name: str, function: Callable[[], T]) -> T:  # noqa: ARG002  (as of the protocol)
        """Call it in this thread."""
        return function()

    async def result(self, future: "Future[T]", seconds: float) -> T:
        """Wait in this thread."""
        return future.result(max(seconds, 0))

    def finish(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Do it in this thread, which nobody can cancel."""
        return work

    def spawn(self, name: str, background: Background) -> None:
        """Run it in a thread of this name."""
        thread = threading.Thread(target=lambda: drive(_logged(name, background)), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def cancel(self) -> None:
        """Do nothing: threads end by themselves."""

    async def join(self, seconds: float | None = None) -> None:
        """Wait in this thread, and wake up often: only a thread that is awake sees every signal."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            if thread is not threading.current_thread():
                while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
                    thread.join(min(left, JOIN_PAUSE))


class _TaskFlag(_EventFlag):
    def __init__(self) -> None:
        self._event = asyncio.Event()
        super().__init__(self._event)

    async def wait(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        return self._event.is_set()


class TaskShell:
    """For callers on one event loop: waits in the calling task, and runs in tasks."""

    blocking = False

    def __init__(self) -> None:
        self.over: Flag = _TaskFlag()
        self._tasks: list[asyncio.Task[None]] = []

    def flag(self) -> Flag:
        """Return a flag for tasks."""
        return _TaskFlag()

    def lock(self) -> Lock:
        """Return a lock for tasks."""
        return asyncio.Lock()

    def semaphore(self, permits: int) -> Semaphore:
        """Return a semaphore for tasks."""
        return asyncio.Semaphore(permits)

    async def sleep(self, seconds: float) -> None:
        """Wait in this task."""
        await asyncio.sleep(seconds)

    async def call(self, name: str, function: Callable[[], T]) -> T:
        """Call it in a new thread.

        Not with ``asyncio.to_thread``: if the function hangs, the event loop could not end.
        """
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001  (raised again below)
                future.set_exception(error)
            with suppress(RuntimeError):  # the event loop has ended without it
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=run, name=name, daemon=True).start()
        await ended.wait()
        return future.result()

    async def result(self, future: "Future[T]", seconds: float) -> T:
        """Wait in this task."""
        if future.done():  # if wrapped, it would be done one round of the event loop later, maybe too late
            return future.result()
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), max(seconds, 0))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in a new task."""
        return await to_its_end(work, patience=PATIENCE)

    def spawn(self, name: str, background: Background) -> None:
        """Run it in a task of this name."""
        self._tasks.append(asyncio.create_task(_logged(name, background), name=name))

    def cancel(self) -> None:
        """Cancel the tasks."""
        for task in self._others():
            task.cancel()

    async def join(self, seconds: float | None = None) -> None:
        """Wait in this task. If this task is cancelled, cancel the others, and wait for them to end."""
        tasks = self._others()
        if seconds is None:
            await asyncio.gather(*tasks, return_exceptions=True)
            return
        hanging = await _unfinished(tasks, seconds)
        for task in hanging:
            task.cancel()
        await _unfinished(hanging, seconds)

    def _others(self) -> "list[asyncio.Task[None]]":
        return [task for task in self._tasks if task is not asyncio.current_task()]


async def _unfinished(tasks: "Sequence[asyncio.Task[None]]", seconds: float) -> "list[asyncio.Task[None]]":
    if not tasks:
        return []
    _, left = await asyncio.wait(tasks, timeout=seconds)
    return list(left)


def begin(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Start work that goes on although nobody waits for it, and nobody gets its errors."""
    task = asyncio.create_task(work)
    _going_on.add(task)
    task.add_done_callback(_ended)
    return task


async def to_its_end(work: Coroutine[Any, Any, T], *, patience: float = 0.0) -> T:
    """Do work in a new task, which goes on to its end if the caller is cancelled.

    A cancelled caller waits for that end, at most ``patience`` seconds, however often it is cancelled. Only
    the end of the event loop stops the work.
    """
    task = begin(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        until = time.monotonic() + patience
        while not task.done() and (left := until - time.monotonic()) > 0:
            with suppress(asyncio.CancelledError):  # such as anyio's, which come again and again
                await asyncio.wait([task], timeout=left)
        raise
    return task.result()


async def or_undo(work: Coroutine[Any, Any, T], undo: Callable[[T], Coroutine[Any, Any, None]]) -> T:
    """Do work in a new task; if the caller is cancelled, undo the result as soon as there is one."""
    task = begin(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:

        async def undone() -> None:
            await undo(await task)

        begin(undone())
        raise
    return task.result()


def _ended(task: "asyncio.Task[Any]") -> None:
    _going_on.discard(task)
    if not task.cancelled():
        task.exception()  # asyncio would log an error that nobody read; a waiter has it already


async def _logged(name: str, background: Background) -> None:
    """Run work that nobody waits for, and log its failure."""
    try:
        await background()
    except Exception:  # noqa: BLE001  (there is nobody above to handle it)
        _log.exception("%s ended unexpectedly", name)


class Condition:
    """A lock, and changes under it, for waiters in any thread or event loop of the process.

    Each change has a number, so that a waiter for the next one does not miss any.
    """

    def __init__(self) -> None:
        #: The lock to hold while making or reading a change; the same thread may take it again.
        self.changed = threading.RLock()
        self.changes = 0
        self._waiting: set[Future[None]] = set()

    def announce(self) -> None:
        """Wake all waiters. The caller holds the lock."""
        self.changes += 1
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            fulfil(future, None)

    async def wait(self, shell: Shell, seen: int, seconds: float) -> None:
        """Wait for a change after number ``seen``, at most ``seconds``."""
        future: Future[None] = Future()
        with self.changed:
            if self.changes != seen:
                return
            self._waiting.add(future)
        try:
            await shell.result(future, seconds)
        except TimeoutError:
            pass
        finally:
            with self.changed:
                self._waiting.discard(future)


def fulfil(future: "Future[T]", result: T) -> None:
    """Give a future its result, unless it has one."""
    with suppress(InvalidStateError):
        future.set_result(result)


def fail(future: "Future[Any]", error: BaseException) -> None:
    """Give a future its error, unless it has one."""
    with suppress(InvalidStateError):
        future.set_exception(error)
