"""What goes wrong in a consumer that runs: messages that fail, and calls that do not end."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import PurePath
from types import FrameType
from typing import Any, NamedTuple

from history.store.control import Counts, Trouble, TroubleKind
from triggers.service.places import is_ours, package_of

#: The share of failed runs above which messages count as failing; the alert has the same.
SHARE = 0.1

#: Shares are about the last two periods. A period has at least so many seconds, and so many runs.
PERIOD, RUNS = 5.0, 10

#: How long after the last failure messages no longer count as failing, in seconds; the alert has the same.
PASSED = 300.0

#: From which age on a call counts as one that does not end, in seconds, and how many times as long as a mean
#: run of the service it takes at least.
LONG, TIMES = 5.0, 10.0


class Begun(NamedTuple):
    """A delivery that is being worked on: since when, and in which thread or task."""

    at: float
    thread: int
    task: "asyncio.Task[Any] | None"

    @classmethod
    def now(cls) -> "Begun":
        """Return the delivery that begins here."""
        task = None
        with suppress(RuntimeError):  # no event loop runs in this thread
            task = asyncio.current_task()
        return cls(time.monotonic(), threading.get_ident(), task)

    @classmethod
    def in_thread(cls) -> "Begun":
        """Return the same in a thread without an event loop, which :meth:`now` finds out by an error."""
        return cls(time.monotonic(), threading.get_ident(), None)

    @property
    def age(self) -> float:
        """How many seconds it has taken so far."""
        return max(0.0, time.monotonic() - self.at)

    def where(self) -> str:
        """Return the line of the user's function that it has reached, as well as that can be known."""
        frames = list(_of_thread(self.thread))
        if self.task is not None:
            waits = list(_of_task(self.task))
            if not waits or waits[0] not in frames:  # else it blocks its event loop
                frames = waits
        ours = [number for number, frame in enumerate(frames) if is_ours(frame)]
        inner = frames[ours[0] :] if ours else frames
        users = next((frame for frame in inner if not is_ours(frame) and not _is_of_python(frame)), None)
        frame = users or next((frame for frame in reversed(inner) if is_ours(frame)), None)
        if frame is None:
            return "nobody knows where"
        return f"{frame.f_code.co_qualname} ({PurePath(frame.f_code.co_filename).name}:{frame.f_lineno})"


def hanging(begun: list[Begun], counts: Counts) -> Trouble | None:
    """Return the trouble of calls that take much longer than usual; None if there are none."""
    usual = counts.seconds / counts.runs if counts.runs else 0.0
    late = [call for call in begun if call.age >= max(LONG, TIMES * usual)]
    if not late:
        return None
    first = oldest(late)
    return Trouble(kind=TroubleKind.HANGING, cause=first.where(), elapsed=first.age, count=len(late))


def oldest(begun: Sequence[Begun]) -> Begun:
    """Return the delivery that began first; tasks that began at the same time have no order."""
    return min(begun, key=attrgetter("at"))


@dataclass(slots=True)
class _TroublePeriod:
    began: float = 0.0
    runs: int = 0
    failed: int = 0
    first: float | None = None


@dataclass(slots=True)
class Failing:
    """Watches which share of a trigger's messages fails; not safe between threads."""

    _before: _TroublePeriod = field(default_factory=_TroublePeriod)
    _present: _TroublePeriod = field(default_factory=_TroublePeriod)
    _cause: str = ""
    _last: float = 0.0
    _since: float | None = None
    _count: int = 0

    def note(self, cause: str | None, *, runs: int = 1) -> None:
        """Note the end of a run, and the error if it failed; or the ends of several runs that succeeded."""
        now, present = time.monotonic(), self._present
        if now - present.began >= PERIOD and present.runs >= RUNS:
            self._before, self._present = present, _TroublePeriod(now)
            present = self._present
        present.runs += runs
        if cause is not None:
            present.failed += 1
            present.first = now if present.first is None else present.first
            self._cause, self._last = cause, now
        failed = self._before.failed + present.failed
        if failed <= SHARE * (self._before.runs + present.runs):
            self._since = None
        elif self._since is None:
            self._since = self._before.first or present.first
            self._count = failed
        else:
            self._count += cause is not None

    def trouble(self) -> Trouble | None:
        """Return the trouble of messages that fail; None if few do."""
        now = time.monotonic()
        if self._since is None or now - self._last > PASSED:
            return None
        elapsed = max(0.0, now - self._since)
        return Trouble(kind=TroubleKind.FAILING, cause=self._cause, elapsed=elapsed, count=self._count)


def _of_thread(ident: int) -> Iterator[FrameType]:
    """Yield the frames of a thread, the outermost first."""
    frame = sys._current_frames().get(ident)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (documented)
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    yield from reversed(frames)


def _of_task(task: "asyncio.Task[Any]") -> Iterator[FrameType]:
    """Yield the frames of a task that waits, the outermost first."""
    waits: Any = task.get_coro()
    while waits is not None:
        frame = getattr(waits, "cr_frame", None)
        if frame is not None:
            yield frame
        waits = getattr(waits, "cr_await", None)


def _is_of_python(frame: FrameType) -> bool:
    return package_of(frame) in sys.stdlib_module_names
