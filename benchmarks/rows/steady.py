"""The steady state of a consumer on a broker: from the first message that is worked on to the last."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, TypeVar

from benchmarks.bench import Bench
from benchmarks.measuring import WARM_UP, Times
from benchmarks.result import Budget, Result

_NUMBERS = count()


@dataclass(slots=True)
class Steady:
    """When the messages of one competitor's destination were worked on."""

    destination: str = field(default_factory=lambda: f"consumed-{next(_NUMBERS)}")
    times: list[float] = field(default_factory=list[float])

    def note(self) -> None:
        """Note that a message is worked on."""
        self.times.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """The time of one message."""
        return (self.times[-1] - self.times[0]) / (len(self.times) - 1)


class Filled(Protocol):
    """One competitor's destination."""

    steady: Steady

    def fill(self, messages: int) -> None:
        """Send so many messages."""
        ...


W = TypeVar("W", bound=Filled)


@dataclass(frozen=True, slots=True)
class Turns:
    """The number of rounds that count, and of messages for each competitor in a round."""

    bench: Bench
    what: str
    rounds: int
    messages: int

    def run(self, make: Callable[[], W], passes: Mapping[str, Callable[[W, int], None]]) -> Times:
        """Let competitors take turns; ``make`` makes a new destination each time."""
        rounds: dict[str, list[float]] = {name: [] for name in passes}
        for number in self.bench.progress.track(range(self.rounds + WARM_UP), description=self.what):
            for name, run in passes.items():
                work = make()
                work.fill(self.messages)
                run(work, self.messages)
                if number >= WARM_UP:
                    rounds[name].append(work.steady.seconds)
        return Times(rounds)


def compared(
    times: Times, ours: str, floor: str, *, what: str, beside: str, budget: Budget | None = None
) -> Result:
    """Return the line of the report for one competitor beside another."""
    return Result(
        what=what,
        beside=beside,
        unit="messages/s",
        measured=1 / times.of(ours),
        floor=1 / times.of(floor),
        ratio=1 / times.ratio(ours, floor),
        budget=budget,
    )
