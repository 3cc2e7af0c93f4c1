"""The histories of driver and executors: opened once per process, and waited for."""

import os
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from history.bridge import drive
from history.errors import UnavailableError
from history.opening import open_history

if TYPE_CHECKING:
    from history.beside.kept import KeepsBeside

P = ParamSpec("P")
T = TypeVar("T")

#: The first and the longest pause before an unavailable history is tried again, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0

# By process, because a worker may be a fork of a process that had already opened some.
_opened: dict[tuple[int, str], "KeepsBeside"] = {}


def history_at(url: str) -> "KeepsBeside":
    """Return this process's connection to a history; Spark uses a Python worker for many tasks."""
    key = (os.getpid(), url)
    if key not in _opened:
        _opened[key] = open_history(url)
    return _opened[key]


def close_history(url: str) -> None:
    """Close this process's connection to a history, if there is one; the next use opens another."""
    opened = _opened.pop((os.getpid(), url), None)
    if opened is not None:
        drive(opened.close())


def patiently(
    patience: timedelta, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Make a call that may be repeated, until it is answered or ``patience`` is over.

    Raises:
        UnavailableError: it was never answered.
    """
    deadline = time.monotonic() + patience.total_seconds()
    pause = FIRST_PAUSE
    while True:
        try:
            return drive(call(*args, **kwargs))
        except UnavailableError:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
