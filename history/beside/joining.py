"""Joins: one record for each period, one for each message in it, and a list of periods by their due times.

Each call reads a period, and then makes one step: it stores a message, completes its entry and replaces the
period, if nobody else has replaced it in the meantime; else the call begins again.

An open period has the digest of its activation as key, so an activation has one open period at most. The next
open period of the activation has the same key and versions, but another place in the list. So each step also
requires the place of the period that was read.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, NamedTuple, Self

from history.beside.firsts import Firsts
from history.beside.sealing import document_of_part, opened_part
from history.entry import Entry, EntryOutcome, Fence, Settlement, State, digest
from history.errors import HistoryUnavailableError
from history.store.joining import Added, Addition, Hold, JoinPart, JoinTerms, Period, PeriodState
from history.store.records import (
    Change,
    Delete,
    Expects,
    Fail,
    Get,
    Kind,
    Now,
    Put,
    Record,
    Records,
    Settle,
    is_done,
)
from history.store.times import instant, milliseconds, milliseconds_of
from history.support.encryption import Cipher
from history.support.paging import pieces_of
from history.support.spoilt import readable

#: The key is the digest of the activation while the period is open; then it is the number of the period.
PERIODS = Kind("period")

#: The key is the number of the period, and the digest of the destination. The value is the message.
PARTS = Kind("part")

#: The unfinished periods, the first due one first; the value is the key of the period.
DUE = Kind("due", listed=True)

#: How many periods, of several messages of up to a megabyte each, one call reads.
READ = 20

#: How often a call that others overtake begins again.
ATTEMPTS = 100

#: No number and no due time is greater; a period without a time-out is due then.
_GREATEST = 2**63 - 1

#: Reads the entries of uuids of a trigger.
Lookup = Callable[[str, Sequence[str]], Awaitable[Sequence[Entry | None]]]


class JoinedEntry(NamedTuple):
    """The entry of a destination's message: the digest of its uuid, in hexadecimal digits, and its fence."""

    digest: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPeriod:
    """A period without its messages. ``started`` and ``due`` are in milliseconds since 1970.

    At ``due``, somebody must check it (None: never). ``taken`` counts how often an owner got it. ``version``
    is that of the record from which it was read, or 0.
    """

    number: int
    activation: str
    state: PeriodState = PeriodState.OPEN
    started: int
    due: int | None
    owner: str | None = None
    taken: int = 0
    places: dict[str, JoinedEntry]
    version: int = 0

    @classmethod
    def of(cls, record: Record) -> Self:
        """Read a record."""
        stored: dict[str, Any] = json.loads(record.value)
        stored["state"] = PeriodState(stored["state"])
        stored["places"] = {name: JoinedEntry(*entry) for name, entry in stored["places"].items()}
        return cls(**stored, version=record.version)

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return digest(self.activation) if self.state is PeriodState.OPEN else number_key(self.number)

    @property
    def due_key(self) -> bytes:
        """The key of its place in the list, where the greatest key comes first."""
        due = _GREATEST if self.due is None else self.due
        order = (_GREATEST - due).to_bytes(8) + (_GREATEST - self.number).to_bytes(8)
        return order + (b"open" if self.state is PeriodState.OPEN else b"over")

    @property
    def part_keys(self) -> Sequence[bytes]:
        """The keys of its messages."""
        return [part_key(self.number, destination) for destination in self.places]

    def is_over(self, now: datetime) -> bool:
        """Whether somebody must check it."""
        return self.due is not None and self.due <= milliseconds_of(now)

    def has_another(self, part: JoinPart) -> bool:
        """Whether another message has the place of this one."""
        entry = self.places.get(part.destination)
        return entry is not None and entry.digest != digest(part.uuid).hex()

    def with_part(self, part: JoinPart) -> Self:
        """Return the period with one more message."""
        entry = JoinedEntry(digest(part.uuid).hex(), part.fence)
        return replace(self, places={**self.places, part.destination: entry})

    def handed_to(self, hold: Hold, state: PeriodState, now: datetime) -> Self:
        """Return the period in the hands of an owner."""
        due = milliseconds_of(now + hold.duration)
        return replace(self, state=state, owner=hold.owner, due=due, taken=self.taken + 1)

    def to_json(self) -> bytes:
        """Return it as it is stored, in ASCII: UTF-8 has no lone surrogates."""
        stored = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "version"}
        return json.dumps(stored, separators=(",", ":")).encode()

    def is_there(self) -> Get:
        """Return the change that is refused if somebody else has replaced the period."""
        return Get(PERIODS, self.key, required=True, version=self.version)


def number_key(number: int) -> bytes:
    """Return the key of a period that is not open any more."""
    return number.to_bytes(8)


def part_key(number: int, destination: str) -> bytes:
    """Return the key of a message."""
    return number_key(number) + digest(destination)


class Joining(Firsts):
    """Keeps the parts of joins in the records of a store, and completes their entries in its history.

    Every call may be sent twice without harm. The time comes from the store's server. A time-out begins with
    the first part of a period. When it is over, the period ends, even if no call has checked it yet.
    ``lookup`` is that of the store's history.
    """

    def __init__(self, records: Records, cipher: Cipher | None = None, *, lookup: Lookup) -> None:
        super().__init__(records)
        self._cipher = cipher
        self._lookup = lookup

    async def add(self, trigger: str, part: JoinPart, terms: JoinTerms, hold: Hold) -> Added:
        """Store a part in the open period of its activation and complete its entry, or do neither.

        The last part makes the period READY, and ``hold`` has it; the next message begins another period.
        """
        for _ in range(ATTEMPTS):
            (stored,), now = await self._read(trigger, [digest(part.activation)])
            if stored is not None and stored.is_over(now):
                await self._expire(trigger, stored)
                continue
            period = stored or _begun(part, terms, now)
            is_taken = period.has_another(part)
            added = None if is_taken else await self._add_to(trigger, period, part, terms, hold, now)
            if added is not None:
                return added
            addition = await self._addition(trigger, part)
            if is_taken or addition is not Addition.TAKEN:
                return Added(addition)
            if stored is None and await self._is_spoilt(trigger, period):
                return Added(Addition.SPOILT)
        raise _others("adding to a join")

    async def _is_spoilt(self, trigger: str, period: StoredPeriod) -> bool:
        """Whether a period has a record that cannot be read."""
        (record,) = await self._records.get(trigger, PERIODS, [period.key])
        return record is not None and period.key not in _readable(trigger, [record])

    async def _add_to(
        self,
        trigger: str,
        before: StoredPeriod,
        part: JoinPart,
        terms: JoinTerms,
        hold: Hold,
        now: datetime,
    ) -> Added | None:
        """Add a part to a period; None if that was refused."""
        after = before.with_part(part)
        if set(terms.destinations) <= after.places.keys():
            after = after.handed_to(hold, PeriodState.READY, now)
        message = document_of_part(trigger, part, self._cipher).encode()
        own = part_key(after.number, part.destination)
        changes: list[Change] = [
            *_replacing(before, after),
            Put(PARTS, Record(own, message)),
            Settle(Settlement(part.uuid, part.fence, EntryOutcome.OK), once=True),
        ]
        if after.state is PeriodState.OPEN:
            done = is_done(changes, await self._records.apply(trigger, changes))
            return Added(Addition.KEPT) if done else None
        others = [Get(PARTS, key) for key in after.part_keys if key != own]
        answers = await self._records.apply(trigger, [*changes, *others])
        if not is_done(changes, answers[: len(changes)]):
            return None
        messages = [Record(own, message), *answers[len(changes) :]]
        return Added(Addition.KEPT, self._shown(trigger, after, messages))

    async def _addition(self, trigger: str, part: JoinPart) -> Addition:
        """Return why a part was not added now: KEPT if it was added before, TAKEN if it still can be."""
        (entry,) = await self._lookup(trigger, [part.uuid])
        if entry is None or not entry.is_of(part.fence) or entry.outcome is EntryOutcome.FAILED:
            return Addition.STALE
        return Addition.TAKEN if entry.state is State.STARTED else Addition.KEPT

    async def _expire(self, trigger: str, before: StoredPeriod) -> None:
        """End a period whose time-out is over; it is due then."""
        after = replace(before, state=PeriodState.EXPIRED)
        await self._records.apply(trigger, [*_replacing(before, after), *_failing(before)])

    async def due(self, trigger: str, hold: Hold, *, limit: int = 10) -> Sequence[Period]:
        """Hand out READY and EXPIRED periods that nobody holds; the entries of EXPIRED periods fail then.

        One cheap call if no period waits.
        """
        before: bytes | None = None
        while listed := await self._records.page(trigger, DUE, before=before, limit=min(limit, READ)):
            stored, now = await self._read(trigger, [record.value for record in listed])
            periods = [period for period in stored if period is not None]
            if periods:
                late = [period for period in periods if period.is_over(now)]
                handed_out = [await self._hand_out(trigger, period, hold, now) for period in late]
                return [period for period in handed_out if period is not None]
            before = listed[-1].key  # spoilt periods do not hide those behind them
        return []

    async def _hand_out(self, trigger: str, before: StoredPeriod, hold: Hold, now: datetime) -> Period | None:
        """Hand out a period; None if somebody else was quicker."""
        ends = before.state is PeriodState.OPEN
        after = before.handed_to(hold, PeriodState.EXPIRED if ends else before.state, now)
        failing = _failing(before) if ends else []
        changes = [*_replacing(before, after), *failing, *(Get(PARTS, key) for key in after.part_keys)]
        answers = await self._records.apply(trigger, changes)
        if not is_done(changes, answers):
            return None
        return self._shown(trigger, after, answers[-len(after.places) :])

    async def keep(self, trigger: str, numbers: Sequence[int], hold: Hold) -> None:
        """Hold periods for ``hold.duration`` from now if its owner still has them; zero gives them back."""
        for _ in range(ATTEMPTS):
            periods, now = await self._read(trigger, [number_key(number) for number in numbers])
            due, changes = milliseconds_of(now + hold.duration), list[Change]()
            for period in periods:
                if period is not None and period.owner == hold.owner:
                    changes += _replacing(period, replace(period, due=due))
            if not changes or is_done(changes, await self._records.apply(trigger, changes)):
                return
        raise _others("keeping joins")

    async def finish(self, trigger: str, number: int) -> bool:
        """Forget a READY or EXPIRED period and its parts; False if it was forgotten before."""
        for _ in range(ATTEMPTS):
            (period,), _ = await self._read(trigger, [number_key(number)])
            if period is None:
                return False
            changes: list[Change] = [
                period.is_there(),
                Delete(PERIODS, period.key),
                Delete(DUE, period.due_key),
                *(Delete(PARTS, key) for key in period.part_keys),
            ]
            if is_done(changes, await self._records.apply(trigger, changes)):
                return True
        raise _others("finishing a join")

    async def waiting(self, trigger: str, *, limit: int = 100) -> Sequence[Period]:
        """Return the periods that are not finished, in the order in which they are due."""
        listed = await self._records.page(trigger, DUE, limit=limit)
        shown: list[Period] = []
        for some in pieces_of(listed, READ):
            stored, _ = await self._read(trigger, [record.value for record in some])
            periods = [period for period in stored if period is not None]
            part_keys = [key for period in periods for key in period.part_keys]
            messages = await self._records.get(trigger, PARTS, part_keys)
            shown += [self._shown(trigger, period, messages) for period in periods]
        return shown

    async def _read(
        self, trigger: str, keys: Sequence[bytes]
    ) -> tuple[Sequence[StoredPeriod | None], datetime]:
        """Return the periods of some keys (None: there is none, or it is spoilt), and the store's time."""
        reads: list[Change] = [*(Get(PERIODS, key) for key in keys), Now()]
        *records, clock = await self._records.apply(trigger, reads, each=True)
        assert clock is not None  # noqa: S101  (as the protocol has it)
        periods = _readable(trigger, records)
        return [periods.get(key) for key in keys], clock.at

    def _shown(self, trigger: str, period: StoredPeriod, messages: Iterable[Record | None]) -> Period:
        """Return a period with its messages, which are among these."""
        documents = {record.key: record.value.decode() for record in messages if record is not None}
        parts = {
            destination: opened_part(
                trigger,
                period.activation,
                destination,
                Fence(entry.fence),
                document=documents[key],
                cipher=self._cipher,
            )
            for destination, entry in period.places.items()
            if (key := part_key(period.number, destination)) in documents
        }
        return Period(
            number=period.number,
            activation=period.activation,
            state=period.state,
            started_at=instant(period.started),
            parts=parts,
            taken=period.taken,
        )


def _readable(trigger: str, records: Iterable[Record | None]) -> dict[bytes, StoredPeriod]:
    """Return the periods of the records that can be read, by their keys; the others are logged."""
    stored = [(f"{record.key.hex()} of {trigger}", record) for record in records if record is not None]
    return {period.key: period for period in readable("the period of a join", stored, StoredPeriod.of)}


def _begun(part: JoinPart, terms: JoinTerms, now: datetime) -> StoredPeriod:
    started = milliseconds_of(now)
    return StoredPeriod(
        number=part.fence,
        activation=part.activation,
        started=started,
        due=None if terms.time_out is None else started + milliseconds(terms.time_out),
        places={},
    )


def _replacing(before: StoredPeriod, after: StoredPeriod) -> Sequence[Change]:
    """Return the changes that store a period after another one; refused if somebody else was quicker."""
    if before.version == 0:
        return [_put(after, 1), Put(DUE, Record(after.due_key, after.key))]
    changes: list[Change] = [Get(DUE, before.due_key, required=True)]
    if before.key == after.key:
        changes.append(_put(after, before.version + 1))
    else:
        changes += [_put(after, 1), before.is_there(), Delete(PERIODS, before.key)]
    if before.due_key != after.due_key:
        changes += [Put(DUE, Record(after.due_key, after.key)), Delete(DUE, before.due_key)]
    return changes


def _put(period: StoredPeriod, version: int) -> Put:
    return Put(PERIODS, Record(period.key, period.to_json(), version), Expects.FOLLOWS)


def _failing(period: StoredPeriod) -> list[Change]:
    """Return the changes that fail the entries of a period, so that the parked copies can be run."""
    return [Fail(bytes.fromhex(entry.digest), Fence(entry.fence)) for entry in period.places.values()]


def _others(doing: str) -> HistoryUnavailableError:
    return HistoryUnavailableError(f"{doing}: other clients changed the same records ({ATTEMPTS} attempts)")
