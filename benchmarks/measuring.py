"""Timing on noisy machines: competitors take turns, and the medians of the rounds count."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from rich.progress import Progress

T = TypeVar("T")

#: The first rounds do not count: they load scripts, open connections and fill caches.
WARM_UP = 2

#: The timed part: one pass over the round's material.
Pass = Callable[[Sequence[T]], object]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per message of each competitor, round by round. The same index is the same round."""

    rounds: Mapping[str, Sequence[float]]

    def of(self, name: str) -> float:
        """Return the median, in seconds per message."""
        return median(self.rounds[name])

    def ratio(self, measured: str, floor: str) -> float:
        """Return the median of the rounds' ratios, because a disturbance affects both competitors."""
        pairs = zip(self.rounds[measured], self.rounds[floor], strict=True)
        return median(ours / beside for ours, beside in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How many rounds, of how many messages, after how many that do not count; progress is shown.

    ``clock`` returns seconds: of the wall, or of the processor.
    """

    count: int
    messages: int
    progress: Progress
    warm_up: int = WARM_UP
    clock: Callable[[], float] = time.perf_counter

    def run(self, what: str, make: Callable[[int], Sequence[T]], passes: Mapping[str, Pass[T]]) -> Times:
        """Let competitors take turns in changing order. ``make`` makes new material for each."""
        times: dict[str, list[float]] = {name: [] for name in passes}
        for number in self.progress.track(range(self.count + self.warm_up), description=what):
            names = list(passes) if number % 2 else list(passes)[::-1]
            for name in names:
                seconds = self._time(passes[name], make(self.messages))
                if number >= self.warm_up:
                    times[name].append(seconds / self.messages)
        return Times(times)

    def _time(self, measured: Pass[T], material: Sequence[T]) -> float:
        begin = self.clock()
        measured(material)
        return self.clock() - begin
