"""Repeated records, gathered: one for the first, and one with the count of the others in its minute."""

from dataclasses import dataclass
from typing import Any

from history.beside.security import SecurityRecord

#: For how long equal records are counted before the count is written, in seconds.
WINDOW = 60.0

#: How many different records of unknown people one window has; all others become one record.
MOST_UNKNOWN = 20

#: The same for known people.
MOST_KNOWN = 200

#: Why the others are one record.
OTHERS = "more addresses than are counted separately in a minute"


@dataclass(slots=True)
class _Counted:
    record: SecurityRecord
    times: int = 0


class Gatherer:
    """Counts equal records. It has no lock and no clock: its user has them.

    If a million sign-ins fail in a minute, it passes at most two records for each of :data:`MOST_UNKNOWN`
    addresses, and two for all others. Known people have separate room: strangers cannot hide what they do.
    """

    def __init__(self) -> None:
        self._counted: dict[Any, _Counted] = {}
        self._began: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is counted at present."""
        return self._began is None

    def add(self, record: SecurityRecord, now: float) -> SecurityRecord | None:
        """Return a record to write; None if it is only counted."""
        record = self._told_apart(record)
        self._began = now if self._began is None else self._began
        counted = self._counted.get(_key(record))
        if counted is None:
            self._counted[_key(record)] = _Counted(record)
            return record
        if counted.times == 0:
            counted.record = record
        counted.times += record.times
        return None

    def due(self, now: float, *, all_: bool = False) -> list[SecurityRecord]:
        """Return the counts of an ended window, or of the present one, and begin the next."""
        if self._began is None or not (all_ or now - self._began >= WINDOW):
            return []
        counted, self._counted, self._began = self._counted, {}, None
        return [
            gathered.record.model_copy(update={"times": gathered.times})
            for gathered in counted.values()
            if gathered.times
        ]

    def _told_apart(self, record: SecurityRecord) -> SecurityRecord:
        is_known = record.user is not None
        if _key(record) in self._counted:
            return record
        others = sum((gathered.record.user is not None) == is_known for gathered in self._counted.values())
        if others < (MOST_KNOWN if is_known else MOST_UNKNOWN):
            return record
        return SecurityRecord(event=record.event, outcome=record.outcome, why=OTHERS)


def _key(record: SecurityRecord) -> Any:
    return tuple(record.model_dump(exclude={"at", "id", "times"}).values())
