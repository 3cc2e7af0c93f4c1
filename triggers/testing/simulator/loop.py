"""An event loop that does not wait for timers: simulated time passes as far as the run allows."""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

#: How long the loop waits for threads that may still answer before it lets time pass, in seconds.
GRACE = 0.002

#: How long to wait for threads that a cancelled task has left behind, in seconds.
LEFT_BEHIND = 5.0


class _Selector(selectors.DefaultSelector):
    """Waits for events, but not for time."""

    passed: Callable[[float], None]
    busy: Callable[[], bool]

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        events = super().select(min(timeout, GRACE))
        if not events and not self.busy():
            self.passed(timeout)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that reports the seconds that it did not wait to ``passed``."""

    def __init__(self, passed: Callable[[float], None]) -> None:
        selector = _Selector()
        self._ahead = 0.0
        self._told = passed
        self._calls = 0
        self._pool = ThreadPoolExecutor()
        self._threads: set[Future[Any]] = set()
        selector.passed = self._pass
        selector.busy = lambda: self._calls > 0
        super().__init__(selector)
        self.set_default_executor(self._pool)

    def time(self) -> float:
        """Return the loop's time: the machine's, plus the skipped time."""
        return super().time() + self._ahead

    def run_in_executor(  # type: ignore[override]  # (no simpler signature has its types)
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run in a thread; meanwhile no time is skipped."""
        self._calls += 1
        thread: Future[Any] = (executor or self._pool).submit(func, *args)
        self._threads.add(thread)
        thread.add_done_callback(self._threads.discard)
        future = asyncio.wrap_future(thread, loop=self)
        future.add_done_callback(self._answered)
        return future

    def wait_for_threads(self) -> None:
        """Wait for the threads of cancelled tasks: they would disturb the next run."""
        wait(list(self._threads), LEFT_BEHIND)

    def _answered(self, future: object) -> None:
        del future
        self._calls -= 1

    def _pass(self, seconds: float) -> None:
        self._ahead += seconds
        self._told(seconds)
