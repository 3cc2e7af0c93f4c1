"""A thread that drives the blocking form of a provider for tasks, one call after another.

The thread is a daemon: a provider that never answers does not keep a process from ending.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from history.bridge import drive
from history.errors import ConfigurationError

T = TypeVar("T")


def _nothing() -> None:
    """Leave nothing behind."""


def _refuse() -> None:
    raise ConfigurationError(
        "provider",
        "this process was forked since it was opened, and does not have its thread",
        "open it in the child",
    )


class DriverThread:
    """A thread that runs one call after another: the blocking form of what a task awaits.

    At its end it calls ``ending``. ``refuse_forked`` raises in a process that was forked since.
    """

    def __init__(
        self, name: str, *, ending: Callable[[], None] = _nothing, refuse_forked: Callable[[], None] = _refuse
    ) -> None:
        self._ending, self._refuse_forked = ending, refuse_forked
        self._jobs: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
        self._process = os.getpid()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while (call := self._jobs.get()) is not None:
            call.run()
        self._ending()

    async def do(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        unwanted: Callable[[T], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Drive a coroutine of the blocking form in the thread; return its result.

        If the wait is cancelled, the coroutine still ends; ``unwanted`` is then driven with its result.

        Raises:
            ConfigurationError: this process was forked since, and does not have the thread.
        """
        if self._process != os.getpid():
            coroutine.close()
            self._refuse_forked()
        call = _Call(coroutine, unwanted)
        self._jobs.put(call)
        try:
            return await call.done
        except asyncio.CancelledError:
            if (rest := call.leave()) is not None:
                self._jobs.put(_Call(_quietly(rest)))
            raise

    def end(self) -> None:
        """End the thread when it has done everything."""
        self._jobs.put(None)


class _Call(Generic[T]):
    """One call of a task, and its result. The thread handles a result that the task no longer waits for."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T],
        unwanted: Callable[[T], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._coroutine, self._unwanted = coroutine, unwanted
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[T] = self._loop.create_future()
        self._lock = threading.Lock()
        self._left = False
        #: The result, after it was handed over.
        self._handed: list[T] = []

    def run(self) -> None:
        """Drive the coroutine in the thread, and hand its result over."""
        try:
            result = drive(self._coroutine)
        except BaseException as error:  # noqa: BLE001  (raised where it is awaited)
            self._tell(partial(self._fail, error))
            return
        with self._lock:
            if not self._left:
                self._handed.append(result)
        if not (self._handed and self._tell(partial(self._fulfil, result))) and self._unwanted is not None:
            drive(_quietly(self._unwanted(result)))

    def leave(self) -> Coroutine[Any, Any, None] | None:
        """Wait no longer; return what is to be done with a result that was handed over already."""
        with self._lock:
            self._left = True
            return self._unwanted(self._handed[0]) if self._handed and self._unwanted is not None else None

    def _tell(self, answer: Callable[[], None]) -> bool:
        """Whether the event loop still runs, and gets the answer."""
        try:
            self._loop.call_soon_threadsafe(answer)
        except RuntimeError:
            return False
        return True

    def _fulfil(self, result: T) -> None:
        if not self.done.done():
            self.done.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """Do work whose failure nobody waits for."""
    with suppress(Exception):
        await work
