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

from history.store import HistoryStore
from history.store.control import Counts
from history.store.records import Change, Delete, Expects, Kind, Put, Record, Records, is_done, records_of
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
class Step:
    """The sums of a trigger at an instant, and how many of its messages are parked; None if not known."""

    at: datetime
    counts: Counts
    parked: int | None = None


class RecordedCharts:
    """Charts in the records of a store; as safe as the records, and shared in the same way."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def add(self, trigger: str, now: datetime, make: Callable[[], Awaitable[Step]]) -> bool:
        """Add the step of this minute, unless it is there; ``make`` is called only if it is missing.

        ``now`` is the store's time. If two consumers add the same step, one of them is refused.
        """
        hour = _number(now, timedelta(hours=1))
        (held,) = await self._records.get(trigger, CHARTS, [_key(hour)])
        steps = [] if held is None else _read(trigger, [held])
        if steps and _number(steps[-1].at, STEP) >= _number(now, STEP):
            return False
        value = _written([*steps, await make()])
        version = 1 if held is None else held.version + 1
        changes: list[Change] = [Put(CHARTS, Record(_key(hour), value, version), Expects.FOLLOWS, KEPT)]
        if held is None:
            changes.append(Delete(CHARTS, _key(0), _key(hour - HOURS - 1)))
        return is_done(changes, await self._records.apply(trigger, changes))

    async def steps(self, trigger: str, *, hours: int = HOURS) -> Sequence[Step]:
        """Return the steps of the last hours that have any, the oldest first."""
        held = await self._records.page(trigger, CHARTS, limit=hours + 1)
        return _read(trigger, held[::-1])


def charts_of(store: HistoryStore) -> RecordedCharts | None:
    """Return the charts of a store; None if it does not keep records."""
    records = records_of(store)
    return None if records is None else RecordedCharts(records)


def _number(at: datetime, period: timedelta) -> int:
    return milliseconds_of(at) // milliseconds(period)


def _key(hour: int) -> bytes:
    return hour.to_bytes(8)


def _written(steps: Sequence[Step]) -> bytes:
    """Return steps as JSON: the names once, then for each step its time, what is parked, and its counts."""
    rows = [
        [milliseconds_of(one.at), one.parked, *(getattr(one.counts, name) for name in COUNTED)]
        for one in steps
    ]
    return json.dumps({"names": COUNTED, "steps": rows}, separators=(",", ":")).encode()


def _read(trigger: str, held: Sequence[Record]) -> list[Step]:
    """Read the steps of some records; skip spoilt records."""
    named = ((f"of the trigger {trigger} ({record.value[:60]!r})", record.value) for record in held)
    return list(chain.from_iterable(readable("the chart", named, _steps)))


def _steps(value: bytes) -> list[Step]:
    document: Any = json.loads(value)
    names = [name if name in Counts.model_fields else None for name in document["names"]]
    return [
        Step(
            instant(at),
            Counts(**{name: int(count) for name, count in zip(names, counts, strict=True) if name}),
            parked,
        )
        for at, parked, *counts in document["steps"]
    ]
