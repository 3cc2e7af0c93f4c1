"""Charts of a trigger: its counts at one instant of each minute, for a day, in one record for each hour.

A step has the sums of all consumers, so it does not matter which of them adds it. The difference between two
steps is what happened in between. Without a step, no consumer reported.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from history.store.control import Counts
from history.store.records import Change, Delete, Expects, Kind, Put, Record, Records, is_done
from history.store.times import instant, milliseconds, milliseconds_of
from history.support.spoilt import readable

#: The key is the number of the hour, so keys are in the order of time.
CHARTS = Kind("chart", listed=True)

#: The time between steps.
STEP = timedelta(minutes=1)

#: How long steps are kept, at least; and for how many hours before the present one.
KEPT, HOURS = timedelta(hours=26), 25

#: The counts in a step.
COUNTED = (
    "new",
    "duplicate",
    "in_doubt",
    "rejected",
    "unreadable",
    "failed",
    "recovered",
    "runs",
    "microseconds",
)


@dataclass(frozen=True, slots=True)
class ChartStep:
    """The sums of a trigger at an instant, and how many of its messages are parked; None if not known."""

    at: datetime
    counts: Counts
    parked: int | None = None


class Charts:
    """Charts in the records of a store; as safe as the records, and shared in the same way."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def add(self, trigger: str, now: datetime, make: Callable[[], Awaitable[ChartStep]]) -> bool:
        """Add the step of this minute, unless it is there; ``make`` is called only if it is missing.

        ``now`` is the store's time. If two consumers add the same step, one of them is refused.
        """
        hour = _number(now, timedelta(hours=1))
        (stored,) = await self._records.get(trigger, CHARTS, [_key(hour)])
        steps = [] if stored is None else _read(trigger, [stored])
        if steps and _number(steps[-1].at, STEP) >= _number(now, STEP):
            return False
        value = _written([*steps, await make()])
        version = 1 if stored is None else stored.version + 1
        changes: list[Change] = [Put(CHARTS, Record(_key(hour), value, version), Expects.FOLLOWS, KEPT)]
        if stored is None:
            changes.append(Delete(CHARTS, _key(0), _key(hour - HOURS - 1)))
        return is_done(changes, await self._records.apply(trigger, changes))

    async def steps(self, trigger: str, *, hours: int = HOURS) -> Sequence[ChartStep]:
        """Return the steps of the last hours that have any, the oldest first."""
        stored = await self._records.page(trigger, CHARTS, limit=hours + 1)
        return _read(trigger, stored[::-1])


def _number(at: datetime, period: timedelta) -> int:
    return milliseconds_of(at) // milliseconds(period)


def _key(hour: int) -> bytes:
    return hour.to_bytes(8)


def _written(steps: Sequence[ChartStep]) -> bytes:
    """Return steps as JSON: the names once, then for each step its time, what is parked, and its counts."""
    rows = [
        [milliseconds_of(step.at), step.parked, *(getattr(step.counts, name) for name in COUNTED)]
        for step in steps
    ]
    return json.dumps({"names": COUNTED, "steps": rows}, separators=(",", ":")).encode()


def _read(trigger: str, records: Sequence[Record]) -> list[ChartStep]:
    """Read the steps of some records; skip spoilt records."""
    named = ((f"of the trigger {trigger} ({record.value[:60]!r})", record.value) for record in records)
    return list(chain.from_iterable(readable("the chart", named, _steps)))


def _steps(value: bytes) -> list[ChartStep]:
    document: Any = json.loads(value)
    names = [name if name in Counts.model_fields else None for name in document["names"]]
    return [
        ChartStep(
            instant(at),
            Counts(**{name: int(count) for name, count in zip(names, counts, strict=True) if name}),
            parked,
        )
        for at, parked, *counts in document["steps"]
    ]
