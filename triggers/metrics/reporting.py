"""Reports of the counts of guards and Spark, which have no consumer: the dashboard's charts need them.

A process adds its counts up. A thread reports them to the history some seconds later, in one call for all
triggers, and goes on each half minute without new counts, so that the charts have no gap. If a process is
killed, or ends with ``os._exit``, its counts of the last seconds are missing. A child of ``multiprocessing``
ends so as well, and reports before that. No message waits for a report, and none depends on it.
"""

import asyncio
import atexit
import logging
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakMethod, WeakSet, WeakValueDictionary, finalize

from history.beside.kept import beside_of
from history.bridge import drive
from history.opening import open_history
from history.store import HistoryStore
from history.store.control import FORGOTTEN_AFTER, Counts, Report
from history.support.forks import at_fork
from history.support.rendering import text_of
from triggers.metrics.charting import Charting
from triggers.metrics.counting import count, has_failed
from triggers.service.outcome import Outcome

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long new counts wait for their report, in seconds.
PAUSE = 5.0

#: How long the thread waits without new counts, and after a report that failed, in seconds.
IDLE = 30.0

#: How often reports of former processes are swept, in seconds.
SWEEP = 60.0

#: How long :meth:`CountReports.close` waits for the last report, in seconds.
PATIENCE = 2.0


@dataclass(slots=True)
class _Sums:
    """The counts of a trigger since the start.

    The store surely has ``stored`` of them. Those up to ``before`` were reported under another token.
    """

    total: Counter[str] = field(default_factory=Counter[str])
    stored: Counts = field(default_factory=Counts)
    before: Counts = field(default_factory=Counts)


class CountReports:
    """Reports the counts of some triggers of this process to one history; safe between threads.

    ``source`` is a URL, which it opens itself, or a store. For a store that exists only under asyncio,
    ``loop`` is its event loop. A forked child begins at zero: its parent reports the counts of the parent.
    """

    def __init__(self, source: str | HistoryStore, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._source, self._loop = source, loop
        #: The store that it has opened, if there is one. The list outlives this object.
        self._opened: list[HistoryStore] = []
        finalize(self, _close_opened, self._opened).atexit = False  # :func:`_close_all` reports first
        #: Whether the history keeps no charts; then nothing is counted.
        self._is_useless = False
        self._begin()
        at_fork(self, CountReports._begin)
        _ALL.add(self)

    def __reduce__(self) -> tuple[Any, tuple[str | HistoryStore]]:
        """Pickle where it reports to: in another process other counts are reported."""
        return reports_to, (self._source,)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, _Sums] = {}
        self._names: list[str] = []
        self._charting: Charting | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._is_new = self._fails = False
        self._token = uuid4().hex
        self._tried = self._answered = self._swept = time.monotonic()

    def note(self, trigger: str, outcome: Outcome) -> None:
        """Count an outcome, and have it reported soon."""
        if self._is_useless:
            return
        with self._lock:
            count(self._totals_of(trigger), outcome, failed=has_failed(outcome))

    def add(self, trigger: str, counts: Mapping[str, int]) -> None:
        """Add counts of a trigger, and have them reported soon."""
        if self._is_useless:
            return
        with self._lock:
            self._totals_of(trigger).update(counts)

    def _totals_of(self, trigger: str) -> Counter[str]:
        """Return the totals of a trigger to add to, while the lock is held; the thread reports them."""
        self._is_new = True
        if self._thread is None:
            self._start()
        sums = self._sums.get(trigger)
        if sums is None:
            sums = self._sums[trigger] = _Sums()
            self._names.append(trigger)
        return sums.total

    def close(self) -> None:
        """Report what is new, for at most :data:`PATIENCE` seconds; the next count begins again."""
        with self._lock:
            thread, self._thread = self._thread, None
            over, self._over = self._over, threading.Event()
        over.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(PATIENCE)

    def _start(self) -> None:
        # The thread keeps no object alive: if nobody has this object any more, the thread ends.
        over = self._over
        _report_before_a_child_ends()
        weak = WeakMethod(self._tick, lambda _: over.set())
        thread = threading.Thread(target=_run, args=(weak, over), name="doubtless-counts", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the interpreter is ending, or there are too many threads
            _log.debug("counts are not reported: %s", error)
        else:
            self._thread = thread

    def _tick(self, *, is_last: bool) -> None:
        """Report if it is time; the last time, report what is new, and close what was opened."""
        now = time.monotonic()
        wait = PAUSE if self._is_new and not self._fails else IDLE
        try:
            if self._is_new if is_last else now - self._tried >= wait:
                self._tried = now
                self._report(now)
                self._fails = False
            if is_last:
                self._charting = None
                _close_opened(self._opened)
        except Exception as error:  # noqa: BLE001  (any error of a store: no message depends on the counts)
            if not self._fails:
                _log.warning("the counts of this process are not reported now: %s", text_of(error))
            self._fails = self._is_new = True

    def _report(self, now: float) -> None:
        store = beside_of(self._store())
        if store is None:
            self._is_useless = True
            return
        if now - self._answered > FORGOTTEN_AFTER.total_seconds() / 2:
            self._take_another_token()
        reports = self._reports()
        heard = self._ask(store.control.beat(self._token, reports))
        for report in reports:
            sums = self._sums[report.trigger]
            sums.stored = sums.before + report.counts
        self._answered = now
        if now - self._swept >= SWEEP:
            self._swept = now
            self._ask(store.control.sweep())
        if self._charting is None:
            self._charting = Charting(store, self._names)
        self._ask(self._charting.note(heard.now))

    def _reports(self) -> list[Report]:
        with self._lock:
            self._is_new = False
            return [
                Report(
                    consumer=f"{socket.gethostname()}-{os.getpid()}",
                    trigger=name,
                    counts=Counts(**sums.total) - sums.before,
                    consumes=False,
                )
                for name, sums in self._sums.items()
            ]

    def _take_another_token(self) -> None:
        """Begin again after a silence: the reports under the present token may be swept."""
        self._token = uuid4().hex
        for sums in self._sums.values():
            sums.before = sums.stored

    def _store(self) -> HistoryStore:
        if not isinstance(self._source, str):
            return self._source
        if not self._opened:
            self._opened.append(open_history(self._source))
        return self._opened[0]

    def _ask(self, asking: Coroutine[Any, Any, T]) -> T:
        """Return the answer of the history."""
        if self._loop is None:
            return drive(asking)
        try:
            return asyncio.run_coroutine_threadsafe(asking, self._loop).result(IDLE)
        except BaseException:
            asking.close()  # an event loop that is closed never begins it
            raise


#: The objects of this process that exist.
_ALL: WeakSet[CountReports] = WeakSet()

#: The same by what they report to, so that all guards of a process share one call.
_SHARED: WeakValueDictionary[str | int, CountReports] = WeakValueDictionary()


def reports_to(source: str | HistoryStore, loop: asyncio.AbstractEventLoop | None = None) -> CountReports:
    """Return this process's reports to a history, as in :class:`CountReports`; keep them while you count."""
    key = source if isinstance(source, str) else id(source)
    # Without a lock, which a fork could leave locked in the child.
    return _SHARED.get(key) or _SHARED.setdefault(key, CountReports(source, loop))


def _close_opened(opened: list[HistoryStore]) -> None:
    while opened:
        drive(opened.pop().close())


def _run(weak: "WeakMethod[Callable[..., None]]", over: threading.Event) -> None:
    is_last = False
    while not is_last:
        is_last = over.wait(PAUSE)
        if (tick := weak()) is None:
            return
        tick(is_last=is_last)
        del tick


def _report_before_a_child_ends() -> None:
    """Have a child of multiprocessing report at its end, because it does not call the functions of atexit."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and [os.getpid()] != _NOTED_CHILD:
        _NOTED_CHILD[:] = [os.getpid()]
        util.Finalize(None, _close_all, exitpriority=0)


#: The process that reports at its end for multiprocessing as well; a forked child is another one.
_NOTED_CHILD: list[int] = []


@atexit.register
def _close_all() -> None:
    for reports in list(_ALL):
        reports.close()
