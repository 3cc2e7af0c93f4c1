"""Work that a service gives to a pool of threads: held back until its result is needed or it ends."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from triggers.testing.simulator.course import Course

#: Modules with threads that are never held back.
MACHINERY = frozenset({"concurrent", "asyncio", "aiosqlite", "sqlalchemy", "history", "triggers", "logging"})


def submitting(course: Callable[[], Course | None]) -> Callable[..., "Future[Any]"]:
    """Return the replacement of ``ThreadPoolExecutor.submit`` in the calling thread."""
    own, submit = threading.get_ident(), ThreadPoolExecutor.submit

    def simulated(pool: ThreadPoolExecutor, work: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        run = course()
        # Named by the calling function: an event loop waits for its threads by itself.
        caller = str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        if run is not None and threading.get_ident() == own and caller not in MACHINERY - {"concurrent"}:
            later = Later(partial(work, *given, **named))
            if run.leave_running(later.thread):
                return later
        return submit(pool, work, *given, **named)

    return simulated


class Later(Future[Any]):
    """Runs when its result is needed, or else in the background of its service."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = None
        super().__init__()
        self._work = work
        self.thread = threading.Thread(target=self._begin)

    @property
    def _state(self) -> str:
        self._begin()
        return self._known

    @_state.setter
    def _state(self, state: str) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._known = state

    def _begin(self) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        try:
            self.set_result(work())
        except Exception as error:  # noqa: BLE001  (the future keeps it, whatever it is)
            self.set_exception(error)
