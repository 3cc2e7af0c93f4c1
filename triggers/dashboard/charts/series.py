"""From steps to values: what happened in each minute of an hour, or in each ten minutes of a day.

Steps are about a minute apart. Between two steps that are further apart nothing was reported: these are gaps,
not zeros.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from itertools import pairwise, takewhile

from history.beside.charts import STEP, ChartStep
from history.store.control import Counts

#: Between two steps that are further apart, there is a gap: one step may be missing.
LONGEST_STEP = 2.5 * STEP


class ChartPeriod(Enum):
    """The time that a chart shows: a number of parts, each of some seconds."""

    HOUR = ("The last hour", "minute", 60, 60)
    DAY = ("The last day", "10 minutes", 600, 144)

    def __init__(self, title: str, part: str, seconds: int, count: int) -> None:
        self.title, self.part, self.seconds, self.count = title, part, seconds, count


@dataclass(frozen=True, slots=True)
class PeriodPart:
    """The sums of a part of a period, in so many known seconds of it, and how many messages were parked."""

    seconds: float = 0.0
    done: float = 0.0
    duplicates: float = 0.0
    failed: float = 0.0
    runs: float = 0.0
    microseconds: float = 0.0
    parked: int | None = None

    def joined(self, done: "PeriodPart", share: float) -> "PeriodPart":
        """Return this part with a share of what was done between two steps."""
        return PeriodPart(
            self.seconds + share * done.seconds,
            self.done + share * done.done,
            self.duplicates + share * done.duplicates,
            self.failed + share * done.failed,
            self.runs + share * done.runs,
            self.microseconds + share * done.microseconds,
            done.parked,
        )


#: Parts by their number since 1970.
Parts = Mapping[int, PeriodPart]


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a period, the oldest first; None where they are not known.

    Rates are a second, ``duration`` is the mean of a run in milliseconds. ``first`` is the number of the
    first part. ``reported`` says for which parts a consumer reported. For the last ``coming`` parts, its
    report may still come.
    """

    period: ChartPeriod
    first: int
    reported: Sequence[bool]
    coming: int
    done: Sequence[float | None]
    duplicates: Sequence[float | None]
    failed: Sequence[float | None]
    duration: Sequence[float | None]
    parked: Sequence[float | None]


def parts_of(steps: Iterable[ChartStep], period: ChartPeriod) -> dict[int, PeriodPart]:
    """Return what happened in each part of a period between some steps, the oldest first."""
    parts: dict[int, PeriodPart] = {}
    for before, after in pairwise(steps):
        if timedelta(0) < after.at - before.at <= LONGEST_STEP:
            done = _between(before, after)
            for number, share in _shares(before.at.timestamp(), after.at.timestamp(), period.seconds):
                parts[number] = parts.get(number, PeriodPart()).joined(done, share)
    return parts


def values_of(triggers: Sequence[Parts], period: ChartPeriod, now: float) -> Values:
    """Return the values of a period that ends now, of some triggers together."""
    first = int(now // period.seconds) - period.count + 1
    slots = [
        [part for parts in triggers if (part := parts.get(number)) is not None and part.seconds > 0]
        for number in range(first, first + period.count)
    ]
    return Values(
        period,
        first,
        [bool(some) for some in slots],
        _coming(slots, first, period, now),
        [_sum(part.done / part.seconds for part in some) for some in slots],
        [_sum(part.duplicates / part.seconds for part in some) for some in slots],
        [_sum(part.failed / part.seconds for part in some) for some in slots],
        [_mean(some) for some in slots],
        [_sum(part.parked for part in some if part.parked is not None) for some in slots],
    )


def _coming(slots: Sequence[Sequence[PeriodPart]], first: int, period: ChartPeriod, now: float) -> int:
    """Return how many of the last parts are too new to be reported; none after a longer silence."""
    unknown = sum(1 for _ in takewhile(lambda some: not some, reversed(slots)))
    begin = (first + period.count - unknown) * period.seconds
    return unknown if now - begin <= LONGEST_STEP.total_seconds() else 0


def _between(before: ChartStep, after: ChartStep) -> PeriodPart:
    first, last = before.counts, after.counts
    if last.runs < first.runs or last.new < first.new:  # they were cleared meanwhile, and began at zero
        first = Counts()
    failed = max(0, last.failed - first.failed)
    return PeriodPart(
        (after.at - before.at).total_seconds(),
        max(0, last.new - first.new - failed),
        max(0, last.duplicate - first.duplicate),
        failed,
        max(0, last.runs - first.runs),
        max(0, last.microseconds - first.microseconds),
        after.parked,
    )


def _shares(begin: float, end: float, seconds: int) -> Iterable[tuple[int, float]]:
    """Yield the parts that an interval touches, and which share of the interval is in each."""
    for number in range(int(begin // seconds), int(end // seconds) + 1):
        inside = min(end, (number + 1) * seconds) - max(begin, number * seconds)
        if inside > 0:
            yield number, inside / (end - begin)


def _sum(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) if numbers else None


def _mean(parts: Sequence[PeriodPart]) -> float | None:
    runs = sum(part.runs for part in parts)
    return sum(part.microseconds for part in parts) / runs / 1000 if runs else None
