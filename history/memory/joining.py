"""Joins in memory, beside the document history in memory."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from history.beside.firsts import RecordedFirsts
from history.entry import Entry, EntryOutcome, State, settle
from history.store.joining import Added, Addition, Hold, JoinPart, JoinTerms, Period, PeriodState
from history.store.records import Records

#: Read the entry of a trigger's uuid (None if it has expired), and replace it.
Read = Callable[[str, str], Entry | None]
Write = Callable[[str, str, Entry | None], None]


@dataclass(slots=True)
class _Period:
    """One period; at ``due`` somebody must check it (None: never)."""

    number: int
    activation: str
    started_at: datetime
    due: datetime | None
    state: PeriodState = PeriodState.OPEN
    parts: dict[str, JoinPart] = field(default_factory=dict[str, JoinPart])
    owner: str | None = None
    taken: int = 0

    def holds_another(self, part: JoinPart) -> bool:
        other = self.parts.get(part.destination)
        return other is not None and other.uuid != part.uuid

    def shown(self) -> Period:
        return Period(
            number=self.number,
            activation=self.activation,
            state=self.state,
            started_at=self.started_at,
            parts=dict(self.parts),
            taken=self.taken,
        )


@dataclass(slots=True)
class _Joins:
    """The joins of one trigger."""

    open: dict[str, _Period] = field(default_factory=dict[str, _Period])
    periods: dict[int, _Period] = field(default_factory=dict[int, _Period])


class MemoryJoining(RecordedFirsts):
    """Joins that end with their process; threads may share them.

    ``lock``, ``clock`` and ``next_number`` are those of the history. Its entries are read and written while
    the lock is held.
    """

    def __init__(
        self,
        records: Records,
        *,
        lock: "threading.RLock",
        clock: Callable[[], datetime],
        next_number: Callable[[], int],
        read: Read,
        write: Write,
    ) -> None:
        super().__init__(records)
        self._lock = lock
        self._clock = clock
        self._next_number = next_number
        self._read = read
        self._write = write
        self._joins: dict[str, _Joins] = {}

    async def add(self, trigger: str, part: JoinPart, terms: JoinTerms, hold: Hold) -> Added:
        """Store a part and complete its entry, or do neither; see :class:`~history.store.joining.Joining`."""
        with self._lock:
            joins, now = self._of(trigger), self._clock()
            entry = self._read(trigger, part.uuid)
            if entry is None or entry.fence != part.fence or entry.outcome is EntryOutcome.FAILED:
                return Added(Addition.STALE)
            if entry.state is State.COMPLETED:
                return Added(Addition.KEPT)  # the call was sent twice
            period = joins.open.get(part.activation)
            if period is not None and period.due is not None and period.due <= now:
                period = None
            if period is not None and period.holds_another(part):
                return Added(Addition.TAKEN)
            entry, _ = settle(entry, fence=part.fence, outcome=EntryOutcome.OK, now=now)
            self._write(trigger, part.uuid, entry)
            period = period or self._begin(joins, part, terms, now)
            period.parts[part.destination] = part
            if not set(terms.destinations) <= period.parts.keys():
                return Added(Addition.KEPT)
            del joins.open[part.activation]
            period.state = PeriodState.READY
            return Added(Addition.KEPT, self._hand_out(period, hold, now))

    def _begin(self, joins: _Joins, part: JoinPart, terms: JoinTerms, now: datetime) -> _Period:
        due = None if terms.time_out is None else now + terms.time_out
        period = _Period(self._next_number(), part.activation, now, due)
        joins.open[part.activation] = joins.periods[period.number] = period
        return period

    def _hand_out(self, period: _Period, hold: Hold, now: datetime) -> Period:
        period.owner, period.due = hold.owner, now + hold.duration
        period.taken += 1
        return period.shown()

    async def due(self, trigger: str, hold: Hold, *, limit: int = 10) -> Sequence[Period]:
        """Hand out periods that nobody holds; see :class:`~history.store.joining.Joining`."""
        with self._lock:
            joins, now = self._of(trigger), self._clock()
            late = [
                period for period in joins.periods.values() if period.due is not None and period.due <= now
            ][:limit]
            for period in late:
                if period.state is PeriodState.OPEN:
                    self._expire(trigger, joins, period)
            return [self._hand_out(period, hold, now) for period in late]

    def _expire(self, trigger: str, joins: _Joins, period: _Period) -> None:
        period.state = PeriodState.EXPIRED
        if joins.open.get(period.activation) is period:
            del joins.open[period.activation]
        for part in period.parts.values():
            entry = self._read(trigger, part.uuid)
            if entry is not None and entry.fence == part.fence and entry.outcome is EntryOutcome.OK:
                self._write(trigger, part.uuid, replace(entry, outcome=EntryOutcome.FAILED))

    async def keep(self, trigger: str, numbers: Sequence[int], hold: Hold) -> None:
        """Hold periods for longer."""
        with self._lock:
            periods, until = self._of(trigger).periods, self._clock() + hold.duration
            for number in numbers:
                if number in periods and periods[number].owner == hold.owner:
                    periods[number].due = until

    async def finish(self, trigger: str, number: int) -> bool:
        """Forget a period."""
        with self._lock:
            periods = self._of(trigger).periods
            if number not in periods or periods[number].state is PeriodState.OPEN:
                return False
            del periods[number]
            return True

    async def waiting(self, trigger: str, *, limit: int = 100) -> Sequence[Period]:
        """Return the periods that are not finished."""
        with self._lock:
            return [period.shown() for period in list(self._of(trigger).periods.values())[:limit]]

    def _of(self, trigger: str) -> _Joins:
        return self._joins.setdefault(trigger, _Joins())
