"""Reads the steps of charts beside the pages, so that no page waits for many triggers or a slow history.

It keeps the parts of an hour and a day, so later readings need only the steps of the last hours.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Lock

from history.beside.charts import ChartStep
from history.bridge import drive
from history.errors import DoubtlessError
from triggers.dashboard.charts.series import ChartPeriod, Parts, PeriodPart, Values, parts_of, values_of
from triggers.dashboard.pulse import Pulse

#: How old what is shown may be before it is read again, in seconds.
FRESH = 20.0

#: How long a page waits for the first reading, in seconds; then it looks again.
PATIENCE = 0.05

#: After how many seconds without a reading all steps are read again.
ALL_AGAIN = 1800.0


@dataclass(slots=True)
class _Known:
    """The known parts of a trigger, and when they were read."""

    read_at: float
    parts: dict[ChartPeriod, dict[int, PeriodPart]] = field(
        default_factory=dict[ChartPeriod, dict[int, PeriodPart]]
    )


class Charts:
    """The charts of the triggers of all histories; safe to share between threads.

    With ``background=False``, each look reads them, for tests.
    """

    def __init__(
        self, pulse: Pulse, *, background: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pulse, self._background, self._clock = pulse, background, clock
        self._known: dict[str, _Known] = {}
        self._lock = Lock()
        self._reading: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="charts")

    def latest(self, names: Sequence[str], now: float) -> Sequence[Values]:
        """Return the values of the last hour and the last day of some triggers together.

        ``now`` is the histories' time, in seconds since 1970.
        """
        reading = self._read(names)
        if reading is not None and not (self._background and self.has_read(names)):
            wait([reading], PATIENCE if self._background else None)
        with self._lock:
            charts = [self._known[name].parts for name in names if name in self._known]
        return [values_of([_of(parts, period) for parts in charts], period, now) for period in ChartPeriod]

    def has_read(self, names: Iterable[str]) -> bool:
        """Whether any of these triggers was read."""
        with self._lock:
            return any(name in self._known for name in names)

    def close(self) -> None:
        """Wait for the present reading."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _read(self, names: Iterable[str]) -> "Future[None] | None":
        """Have those read that are old; the triggers of a history that is away stay as they are."""
        silent, now = self._pulse.silent, self._clock()
        with self._lock:
            due = [name for name in names if name not in silent and self._is_due(name, now)]
            if due and (self._reading is None or self._reading.done()):
                self._reading = self._thread.submit(self._read_all, due)
            return self._reading

    def _is_due(self, name: str, now: float) -> bool:
        cached = self._known.get(name)
        return cached is None or not self._background or now - cached.read_at >= FRESH

    def _read_all(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._read_one(name)
            except (
                DoubtlessError
            ):  # what is known stays; other parts of the page say that its history is away
                continue

    def _read_one(self, name: str) -> None:
        charts, before, now = self._pulse.store_of(name).charts, self._known.get(name), self._clock()
        made = _Known(now)
        if before is not None and now - before.read_at < ALL_AGAIN:
            steps = drive(charts.steps(name, hours=1))
            made.parts = {period: _newer(_of(before.parts, period), steps, period) for period in ChartPeriod}
        else:
            steps = drive(charts.steps(name))
            made.parts = {period: parts_of(steps, period) for period in ChartPeriod}
        with self._lock:
            self._known[name] = made


def _of(parts: Mapping[ChartPeriod, Parts], period: ChartPeriod) -> Parts:
    return parts.get(period, {})


def _newer(before: Parts, steps: Sequence[ChartStep], period: ChartPeriod) -> dict[int, PeriodPart]:
    """Return parts after more steps were read: these decide about the parts that begin after the first."""
    if not steps:
        return dict(before)
    first = steps[0].at.timestamp() // period.seconds
    last = steps[-1].at.timestamp() // period.seconds
    kept = {number: part for number, part in before.items() if last - period.count <= number <= first}
    return {number: part for number, part in parts_of(steps, period).items() if number > first} | kept
