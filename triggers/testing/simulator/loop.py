"""An event loop whose time goes by at once: what waits for a timer waits no longer than the run says."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

#: How long the loop waits for threads that may still answer before it lets time go by, in seconds.
GRACE = 0.002


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
    """An event loop that tells ``passed`` of the seconds that it did not wait."""

    def __init__(self, passed: Callable[[float], None]) -> None:
        selector = _Selector()
        self._ahead = 0.0
        self._told = passed
        self._calls = 0
        selector.passed = self._pass
        selector.busy = lambda: self._calls > 0
        super().__init__(selector)

    def time(self) -> float:
        """Return the loop's time: the machine's, and what was not waited for."""
        return super().time() + self._ahead

    def run_in_executor(  # type: ignore[override]  # (its own types are told by no simpler signature)
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run in a thread; meanwhile no time goes by unwaited."""
        self._calls += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._answered)
        return future

    def _answered(self, future: object) -> None:
        del future
        self._calls -= 1

    def _pass(self, seconds: float) -> None:
        self._ahead += seconds
        self._told(seconds)
