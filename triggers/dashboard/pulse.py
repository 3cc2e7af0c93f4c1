"""The present reports of consumers: read from each history at most once a second, for any number of people.

Triggers may have separate histories. Each history is read in a thread, so that one that is away delays no
page; the last reading stays known. :meth:`Pulse.source_of` says which history a trigger has, for all pages.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, pairwise
from threading import Lock

from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.errors import HistoryUnavailableError, UnavailableError
from history.memory import MemoryHistory
from history.store.control import Counts, Overview
from history.support.rendering import first_line, reason_of
from triggers.operations.journals import known_triggers

#: How old shown data may be, in seconds.
FRESH = 1.0

#: How long a page waits for a history, in seconds; one that takes longer counts as away.
PATIENCE = 3.0

#: The period of a rate, in seconds.
WINDOW = 10.0

#: How many readings are remembered, and after how long a silence they are useless, in seconds.
REMEMBERED, SILENCE = 90, 30.0

#: The verdicts and endings with shown rates.
RATES = ("new", "duplicate", "in_doubt", "rejected", "failed", "recovered")


@dataclass(frozen=True, slots=True)
class PulseReading:
    """The facts at a moment of the clock."""

    at: float
    overview: Overview
    triggers: list[str]
    read_at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(slots=True, eq=False)
class Source:
    """A history, and what is known of it. ``problem`` says why it does not answer, since ``away_since``.

    ``names`` are the triggers of the dashboard's modules that have it. The triggers in ``parks`` only park
    there, and ``parked`` are the triggers with parked messages in it. ``is_twin``: another source turned out
    to be the same history. ``is_given``: somebody else closes its store.
    """

    address: str
    open: Callable[[], KeepsBeside]
    names: list[str] = field(default_factory=list[str])
    parks: list[str] = field(default_factory=list[str])
    store: KeepsBeside | None = None
    parked: frozenset[str] = frozenset()
    reading: PulseReading | None = None
    problem: str | None = None
    away_since: datetime | None = None
    error: Exception | None = None
    asking: "Future[None] | None" = None
    asked_at: float = 0.0
    is_twin: bool = False
    is_given: bool = False
    opening: Lock = field(default_factory=Lock)

    @property
    def triggers(self) -> list[str]:
        """The known names of its triggers."""
        read = () if self.reading is None else self.reading.triggers
        return sorted({*self.names, *self.parks, *self.parked, *read})

    def fail(self, problem: str) -> None:
        """Note that it does not answer."""
        self.problem, self.away_since = problem, self.away_since or datetime.now(UTC)


class Pulse:
    """Reads, and remembers its readings; safe to share between threads.

    ``names`` are the triggers of the dashboard's modules with the dashboard's history. The triggers in
    ``parks`` only park there. ``others`` are the histories of the other triggers.
    """

    def __init__(
        self,
        store: KeepsBeside,
        clock: Callable[[], float] = time.monotonic,
        *,
        names: Sequence[str] = (),
        parks: Sequence[str] = (),
        others: Sequence[Source] = (),
        background: bool = True,
    ) -> None:
        self._clock, self._background = clock, background
        self._main = Source(store.control.address, lambda: store, [*names], [*parks], store)
        self._all = [self._main, *others]
        self._readings: deque[PulseReading] = deque(maxlen=REMEMBERED)
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(len(self._all), thread_name_prefix="pulse")

    @property
    def sources(self) -> Sequence[Source]:
        """The histories, the dashboard's first."""
        return [source for source in self._all if not source.is_twin]

    def read(self) -> PulseReading:
        """Return the present facts of the dashboard's history.

        Raises:
            UnavailableError: the history did not answer.
        """
        asking = self._ask(self._main)
        if asking is not None:
            asking.result()
        self._remember()
        with self._lock:
            reading, error = self._main.reading, self._main.error
        if error is not None or reading is None:
            raise (error or RuntimeError("a history was read without a result")).with_traceback(None)
        return reading

    def look(self) -> PulseReading | None:
        """Return the last known facts of all histories; None if none has ever answered."""
        asking = {id(source): self._ask(source) for source in self.sources}
        patient = [source for source in self.sources if source.problem is None or not self._background]
        futures = [future for source in patient if (future := asking[id(source)]) is not None]
        wait(futures, PATIENCE if self._background else None)
        with self._lock:
            now = self._clock()
            for source in self.sources:
                if source.asking is not None and now - source.asked_at >= PATIENCE:
                    source.fail(f"it has not answered for {PATIENCE:.0f} s")
        self._remember()
        with self._lock:
            return self._readings[-1] if self._readings else None

    def answering(self) -> Sequence[Source]:
        """Return the histories that answer now.

        Raises:
            DoubtlessError: none does.
        """
        self.look()
        sources = [source for source in self.sources if source.problem is None]
        if not sources:
            raise self._main.error or HistoryUnavailableError("reading what is known now")
        return sources

    @property
    def away(self) -> Sequence[Source]:
        """The histories that did not answer when they were last asked."""
        return [source for source in self.sources if source.problem is not None]

    @property
    def silent(self) -> set[str]:
        """The triggers of histories that are away: what is known of them may be over."""
        return {name for source in self.away for name in source.triggers if self.source_of(name) is source}

    def known(self) -> PulseReading:
        """Return the last known facts of all histories.

        Raises:
            UnavailableError: none has ever answered.
        """
        return self.look() or self.read()

    def source_of(self, trigger: str) -> Source:
        """Return the history of a trigger: what its module says, or else the first that knows its name."""
        named = (source for source in self.sources if trigger in source.names)
        learned = (source for source in self.sources if trigger in source.triggers)
        return next(chain(named, learned), self._main)

    def lot_source_of(self, trigger: str) -> Source:
        """Return the history in which the messages of a trigger are parked: usually its own."""
        return next((one for one in self.sources if trigger in one.parks), self.source_of(trigger))

    def lot_of(self, trigger: str) -> KeepsBeside:
        """Return the store in which the messages of a trigger are parked.

        Raises:
            DoubtlessError: it cannot be opened.
        """
        return self.opened(self.lot_source_of(trigger))

    def store_of(self, trigger: str) -> KeepsBeside:
        """Return the store of a trigger.

        Raises:
            DoubtlessError: its history cannot be opened.
        """
        return self.opened(self.source_of(trigger))

    def opened(self, source: Source) -> KeepsBeside:
        """Return the store of a history, which stays open until the end.

        An empty history in memory stands for a file that does not exist yet. It is not kept.

        Raises:
            DoubtlessError: it cannot be opened.
        """
        with source.opening:
            store = source.store or source.open()
            if not source.is_given and isinstance(store, MemoryHistory):
                return store
            source.address = store.control.address
            source.store = store  # last: whoever sees it also sees its address
        self._find_twin(source)
        return store

    def rates(self, trigger: str) -> Mapping[str, float] | None:
        """Return the recent rates a second, by event; None until they are known."""
        with self._lock:
            readings = list(self._readings)
        recent = (
            [reading for reading in readings if readings[-1].at - reading.at <= WINDOW] if readings else []
        )
        if len(recent) < 2:  # noqa: PLR2004  (a rate is between two)
            return None
        return _between(recent[0], recent[-1], trigger)

    def curve(self, trigger: str) -> list[float]:
        """Return the messages a second between each two readings, the oldest first."""
        with self._lock:
            readings = list(self._readings)
        pairs = pairwise(readings)
        return [sum(_between(*pair, trigger)[name] for name in RATES[:4]) for pair in pairs]

    def close(self) -> None:
        """Close the histories that it opened."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for source in self._all[1:]:
            if source.store is not None and not source.is_given:
                drive(source.store.close())

    def _ask(self, source: Source) -> "Future[None] | None":
        """Have a history read, unless what is known of it is fresh."""
        with self._lock:
            now = self._clock()
            if source.asking is None and (source.asked_at == 0.0 or now - source.asked_at >= FRESH):
                source.asked_at = now or 1e-9  # a clock may begin at zero
                source.asking = self._threads.submit(self._read, source, now)
            return source.asking

    def _read(self, source: Source, now: float) -> None:
        reading: PulseReading | None = None
        error: Exception | None = None
        try:
            store = self.opened(source)
            reading = None if source.is_twin else _reading_of(store, now)
        except Exception as failure:  # noqa: BLE001  (any error of a store is shown, and it is asked again)
            error = failure
        with self._lock:
            source.asking, source.error = None, error
            if error is not None:
                source.fail(problem_of(error))
            else:
                source.reading, source.problem, source.away_since = reading, None, None

    def _find_twin(self, source: Source) -> None:
        """Find out whether an earlier source is the same history, which then has its triggers."""
        with self._lock:
            for twin in self._all[: self._all.index(source)]:
                if twin.store is not None and twin.address == source.address and not source.is_twin:
                    source.is_twin = True
                    twin.names.extend(source.names)
                    twin.parks.extend(source.parks)

    def _remember(self) -> None:
        """Keep what is known now, if that is new."""
        with self._lock:
            readings = [source.reading for source in self.sources if source.reading is not None]
            if not readings:
                return
            newest = max(reading.at for reading in readings)
            last = self._readings[-1] if self._readings else None
            if last is not None and newest <= last.at and last.triggers == _names(readings):
                return
            if last is not None and newest - last.at > SILENCE:
                self._readings.clear()
            self._readings.append(_together(readings, newest))


def _reading_of(store: KeepsBeside, now: float) -> PulseReading:
    """Read a history."""
    overview = drive(store.control.overview())
    return PulseReading(now, overview, known_triggers(store, overview))


def problem_of(error: Exception) -> str:
    """Say why a history was not read; which of its scripts was to run helps nobody."""
    if isinstance(error, UnavailableError):
        return f"it does not answer ({reason_of(error.__cause__)})"
    return first_line(error)


def _names(readings: Sequence[PulseReading]) -> list[str]:
    return sorted(set(chain.from_iterable(reading.triggers for reading in readings)))


def _together(readings: Sequence[PulseReading], at: float) -> PulseReading:
    """Return the facts of several histories as those of one."""
    if len(readings) == 1:
        return readings[0]
    overviews = [reading.overview for reading in readings]
    statistics: dict[str, Counts] = {}
    for name, counts in chain.from_iterable(overview.statistics.items() for overview in overviews):
        statistics[name] = statistics.get(name, Counts()) + counts
    merged = Overview(
        now=max(overview.now for overview in overviews),
        beats=[beat for overview in overviews for beat in overview.beats],
        orders=[order for overview in overviews for order in overview.orders],
        statistics=statistics,
        reported=frozenset(chain.from_iterable(overview.reported for overview in overviews)),
        lost=[beat for overview in overviews for beat in overview.lost],
    )
    return PulseReading(at, merged, _names(readings), max(reading.read_at for reading in readings))


def _between(first: PulseReading, last: PulseReading, trigger: str) -> dict[str, float]:
    seconds = max(last.at - first.at, 0.001)
    before, after = (reading.overview.statistics.get(trigger, Counts()) for reading in (first, last))
    # Counts that were cleared meanwhile begin at zero.
    return {name: max(0, getattr(after, name) - getattr(before, name)) / seconds for name in RATES}
