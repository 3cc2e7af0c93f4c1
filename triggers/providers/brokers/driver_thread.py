"""A thread that drives the blocking form of a provider for tasks, one call after another.

The thread is a daemon: a provider that never answers does not keep a process from ending.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from history.bridge import drive
from history.errors import ConfigurationError

T = TypeVar("T")

#: A call, and the function that takes its result.
_Job = tuple[Coroutine[Any, Any, Any], Callable[[Any, BaseException | None], None]]


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
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._process = os.getpid()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            coroutine, tell = job
            try:
                result = drive(coroutine)
            except BaseException as error:  # noqa: BLE001  (raised where it is awaited)
                tell(None, error)
            else:
                tell(result, None)
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
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if done.cancelled():
                if error is None and unwanted is not None:
                    self._jobs.put((unwanted(result), _forget))
            elif error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)

        def tell(result: Any, error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the event loop has ended: its connection will end as well
                loop.call_soon_threadsafe(settle, result, error)

        self._jobs.put((coroutine, tell))
        return await done

    def end(self) -> None:
        """End the thread when it has done everything."""
        self._jobs.put(None)


def _forget(_result: Any, _error: BaseException | None) -> None:
    """Drop a result that nobody waits for."""
