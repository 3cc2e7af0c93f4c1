"""The time, the threads and the log of services while a run goes on."""

import logging
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from unittest.mock import patch

from triggers.testing.simulator.course import BEGINNING, Course
from triggers.testing.simulator.surroundings.pools import MACHINERY, submitting


@contextmanager
def patched(course: Callable[[], Course | None]) -> Generator[None]:
    """Make ``time.sleep``, ``time.time`` and threads of this thread's services those of the run."""
    own, sleep, clock, start, join = (
        threading.get_ident(),
        time.sleep,
        time.time,
        threading.Thread.start,
        threading.Thread.join,
    )

    def simulated_sleep(seconds: float, /) -> None:
        run = course()
        if run is None or threading.get_ident() != own:
            sleep(seconds)
        else:
            run.pass_time(seconds)

    def simulated_time() -> float:
        run = course()
        ahead = 0.0 if run is None else (run.now() - BEGINNING).total_seconds()
        return clock() + ahead

    def simulated_start(thread: threading.Thread) -> None:
        run = course()
        target = vars(thread).get("_target") if type(thread) is threading.Thread else None
        home = str(getattr(target, "__module__", None)).partition(".")[0]
        ours = target is not None and home not in MACHINERY
        if run is None or threading.get_ident() != own or not ours or not run.leave_running(thread):
            start(thread)

    def simulated_join(thread: threading.Thread, timeout: float | None = None) -> None:
        run = course()
        if run is None or not run.join(thread):
            join(thread, timeout)

    with (
        patch.object(ThreadPoolExecutor, "submit", submitting(course)),
        patch.object(time, "sleep", simulated_sleep),
        patch.object(time, "time", simulated_time),
        patch.object(threading.Thread, "start", simulated_start),
        patch.object(threading.Thread, "join", simulated_join),
    ):
        yield


@contextmanager
def quiet() -> Generator[None]:
    """Silence the library's log: the report shows the hundreds of deaths."""
    loggers = [logging.getLogger(name) for name in ("triggers", "history", "resolvers")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
