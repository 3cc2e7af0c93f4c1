"""The present reports of consumers: read from the history at most once a second, for any number of people."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

from history.bridge import drive
from history.store import HistoryStore
from history.store.control import Counts, Overview
from triggers.cli.shared.journals import known_triggers

#: How old shown data may be, in seconds.
FRESH = 1.0

#: The period of a rate, in seconds.
WINDOW = 10.0

#: How many readings are remembered, and after how long a silence they are useless, in seconds.
REMEMBERED, SILENCE = 90, 30.0

#: The verdicts and endings with shown rates.
RATES = ("new", "duplicate", "in_doubt", "rejected", "failed", "recovered")


@dataclass(frozen=True, slots=True)
class Reading:
    """The facts at a moment of the clock."""

    at: float
    overview: Overview
    triggers: list[str]


class Pulse:
    """Reads, and remembers its readings; safe to share between threads."""

    def __init__(self, store: HistoryStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._readings: deque[Reading] = deque(maxlen=REMEMBERED)
        self._lock = Lock()

    def read(self) -> Reading:
        """Return the present facts.

        Raises:
            UnavailableError: the history did not answer.
        """
        with self._lock:
            now = self._clock()
            last = self._readings[-1] if self._readings else None
            if last is not None and now - last.at < FRESH:
                return last
            if last is not None and now - last.at > SILENCE:
                self._readings.clear()
            overview = drive(self._store.control.overview())
            reading = Reading(now, overview, known_triggers(self._store, overview))
            self._readings.append(reading)
            return reading

    def rates(self, trigger: str) -> Mapping[str, float] | None:
        """Return the recent rates a second, by event; None until they are known."""
        with self._lock:
            readings = list(self._readings)
        recent = [one for one in readings if readings[-1].at - one.at <= WINDOW] if readings else []
        if len(recent) < 2:  # noqa: PLR2004  (a rate is between two)
            return None
        return _between(recent[0], recent[-1], trigger)

    def curve(self, trigger: str) -> list[float]:
        """Return the messages a second between each two readings, the oldest first."""
        with self._lock:
            readings = list(self._readings)
        pairs = pairwise(readings)
        return [sum(_between(*pair, trigger)[name] for name in RATES[:4]) for pair in pairs]


def _between(first: Reading, last: Reading, trigger: str) -> dict[str, float]:
    seconds = max(last.at - first.at, 0.001)
    before, after = (one.overview.statistics.get(trigger, Counts()) for one in (first, last))
    # Counts that were cleared meanwhile begin at zero.
    return {name: max(0, getattr(after, name) - getattr(before, name)) / seconds for name in RATES}
