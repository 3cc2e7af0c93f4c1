"""The document history in memory: for tests and first steps."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from history.beside.kept import KeepsBeside
from history.beside.progress import changes_of
from history.beside.results import OF_ENTRIES
from history.entry import (
    DEFAULT_TIME_TO_LIVE,
    SHORT_DIGEST_SIZE,
    Claim,
    Entry,
    EntryOutcome,
    EntryTerms,
    Fence,
    Renewal,
    Settlement,
    State,
    check_held,
    claim,
    current,
    digest,
    fail,
    renew,
    settle,
    started,
    take_over,
)
from history.memory.records import MemoryRecords
from history.store import (
    WHOLE,
    BatchOwner,
    HistoryStats,
    Owner,
    Page,
    Purged,
    ScannedEntry,
    ScanPart,
    SingleVerbs,
)
from history.store.progress import BatchRecord
from history.store.records import Fail, Settle, is_done
from history.support.forks import at_fork, free

#: How many entries or batches one piece of a purge checks.
PIECE = 1000


@dataclass(slots=True)
class _Namespace:
    """The entries of one trigger. An entry of a batch is the batch's number; the ledger has its state.

    A batch that was released and is opened again gets a new number, so its earlier claims are absent.
    """

    entries: dict[bytes, Entry | int] = field(default_factory=dict[bytes, Entry | int])
    ledger: dict[int, Entry] = field(default_factory=dict[int, Entry])
    numbers: dict[BatchOwner, int] = field(default_factory=dict[BatchOwner, int])

    def read(self, key: bytes, now: datetime) -> Entry | None:
        standing = self.entries.get(key)
        return current(self.ledger.get(standing) if isinstance(standing, int) else standing, now)

    def read_batch(self, owner: BatchOwner, now: datetime) -> Entry | None:
        return current(self.ledger.get(self.numbers.get(owner, 0)), now)

    def forget_batch(self, number: int) -> None:
        batch = self.ledger.pop(number)
        owner = BatchOwner(batch.owner or "")
        if self.numbers.get(owner) == number:
            del self.numbers[owner]

    def write(self, key: bytes, entry: Entry | int | None) -> None:
        if entry is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = entry


def _utc_now() -> datetime:
    return datetime.now(UTC)


_shared: dict[str, "MemoryHistory"] = {}
_sharing = threading.Lock()


def shared_history(name: str) -> "MemoryHistory":
    """Return the history with this name, made at its first use; it lives as long as the process."""
    with _sharing:
        return _shared.setdefault(name, MemoryHistory())


class MemoryHistory(SingleVerbs, KeepsBeside):
    """A document history that ends with its process; threads may share it.

    ``clock`` replaces the server's clock and returns aware UTC.

    Guarantee: in doubt, as long as the process lives. A restart forgets everything, so a message that is
    delivered again after it is NEW.
    """

    def __init__(self, *, clock: Callable[[], datetime] = _utc_now) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        at_fork(self._lock, free)
        self._fence = 0
        self._namespaces: dict[str, _Namespace] = {}
        self._memory = MemoryRecords(clock, self._lock, self._change_entry)
        self.keep_beside(
            self._memory,
            triggers=self.triggers,
            lookup=self.lookup,
            address=lambda: f"memory:{id(self)}",
        )

    def for_asyncio(self) -> KeepsBeside:
        """Return itself: nothing here waits."""
        return self

    async def check(self) -> Sequence[str]:
        """Warn that all data are lost when the process ends."""
        return ["the document history is in memory: it is forgotten when this process ends"]

    async def claim(
        self,
        trigger: str,
        uuids: Sequence[str],
        owner: Owner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[Claim]:
        """Claim each uuid that is absent; see :class:`~history.store.HistoryStore`."""
        terms = EntryTerms(lease, time_to_live)
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            seen: set[bytes] = set()
            claims: list[Claim] = []
            for key in map(digest, uuids):
                standing = space.read(key, now) if key in seen else None
                if standing is not None:
                    claims.append(Claim(standing, standing.fence))
                else:
                    claims.append(self._claim_one(space, key, owner, now, terms))
                seen.add(key)
            return claims

    def _claim_one(
        self, space: _Namespace, key: bytes, owner: Owner, now: datetime, terms: EntryTerms
    ) -> Claim:
        if isinstance(owner, BatchOwner):
            return self._claim_for_batch(space, key, owner, now, terms)
        standing = space.read(key, now)
        entry, claimed = claim(standing, owner, fence=self._next_fence(), now=now, terms=terms)
        if standing is None:
            space.write(key, entry)
        return claimed

    def _claim_for_batch(
        self, space: _Namespace, key: bytes, owner: BatchOwner, now: datetime, terms: EntryTerms
    ) -> Claim:
        batch = space.read_batch(owner, now) or self._open_batch(space, owner, now, terms)
        standing = space.read(key, now)
        own = space.entries.get(key) == batch.fence
        if standing is not None and not (own and standing.state is State.STARTED):
            return Claim(standing, standing.fence)
        if batch.state is State.COMPLETED:
            # Under its old number the new claim would be COMPLETED before its service ran.
            batch = self._open_batch(space, owner, now, terms)
        space.write(key, batch.fence)
        return Claim(None, batch.fence)

    def _open_batch(self, space: _Namespace, owner: BatchOwner, now: datetime, terms: EntryTerms) -> Entry:
        batch = replace(started(owner.token, self._next_fence(), now, terms), batch=True)
        space.numbers[owner] = batch.fence
        space.ledger[batch.fence] = batch
        return batch

    async def take_over(
        self,
        trigger: str,
        uuid: str,
        owner: str,
        lease: timedelta | None,
        expected_fence: int,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
        expected_owner: str | None = None,
        failed: bool = False,
    ) -> Claim | None:
        """Compare the fence and become the owner; see :class:`~history.store.HistoryStore`."""
        terms = EntryTerms(lease, time_to_live)
        with self._lock:
            space, now, key = self._namespace(trigger), self._clock(), digest(uuid)
            entry, taken = take_over(
                space.read(key, now),
                owner,
                expected_fence=Fence(expected_fence),
                expected_owner=expected_owner,
                fence=self._next_fence(),
                now=now,
                terms=terms,
                failed=failed,
            )
            if taken is not None:
                space.write(key, entry)
            return taken

    async def adopt(
        self,
        trigger: str,
        expected: Sequence[tuple[str, int]],
        owner: BatchOwner,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[bool]:
        """Move STARTED entries into a batch; see :class:`~history.store.HistoryStore`."""
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            batch = space.read_batch(owner, now)
            if batch is None or batch.state is State.COMPLETED:
                batch = self._open_batch(space, owner, now, EntryTerms(None, time_to_live))
            done: list[bool] = []
            for uuid, fence in expected:
                key = digest(uuid)
                standing = space.read(key, now)
                stands = standing is not None and standing.state is State.STARTED
                done.append(stands and standing is not None and standing.fence in {fence, batch.fence})
                if done[-1]:
                    space.write(key, batch.fence)
            return done

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Complete or release claims that still have their fence."""
        return [self._change_entry(trigger, Settle(settlement)) for settlement in settlements]

    def _change_entry(self, trigger: str, change: Settle | Fail, write: bool = True) -> bool:  # noqa: FBT001, FBT002
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            if isinstance(change, Fail):
                key, done = change.digest, True
                entry = fail(space.read(key, now), fence=change.fence, now=now)
            else:
                key, wish = digest(change.settlement.uuid), change.settlement
                entry, done = settle(
                    space.read(key, now),
                    fence=wish.fence,
                    outcome=wish.outcome,
                    now=now,
                    owner=wish.owner,
                    once=change.once,
                )
            if done and write:
                space.write(key, entry)
            return done

    async def renew_many(self, trigger: str, renewals: Sequence[Renewal], lease: timedelta) -> Sequence[bool]:
        """Prolong leases that still have their fence; see :class:`~history.store.ManyLeases`."""
        check_held("lease", lease)
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            return [self._renew_one(space, renewal, lease, now) for renewal in renewals]

    def _renew_one(self, space: _Namespace, renewal: Renewal, lease: timedelta, now: datetime) -> bool:
        key = digest(renewal.uuid)
        entry, renewed = renew(
            space.read(key, now), fence=renewal.fence, lease=lease, now=now, owner=renewal.owner
        )
        number = space.entries.get(key)
        if renewed and entry is not None and isinstance(number, int):
            space.ledger[number] = entry
        elif renewed:
            space.write(key, entry)
        return renewed

    async def renew_batch(self, trigger: str, owner: BatchOwner, lease: timedelta) -> bool:
        """Prolong the lease in the one ledger entry of a batch; see :class:`~history.store.BatchLeases`."""
        check_held("lease", lease)
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            batch = space.read_batch(owner, now)
            if batch is None:
                return False
            entry, renewed = renew(batch, fence=batch.fence, lease=lease, now=now)
            if renewed and entry is not None:
                space.ledger[batch.fence] = entry
            return renewed

    async def settle_batches(
        self,
        trigger: str,
        owners: Sequence[BatchOwner],
        outcome: EntryOutcome | None,
        *,
        record: BatchRecord | None = None,
    ) -> bool:
        """Settle the one ledger entry of each batch, and store the record, under one lock."""
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            entries: list[tuple[BatchOwner, Fence, Entry | None]] = []
            for owner in owners:
                batch = space.read_batch(owner, now)
                if batch is None:
                    if outcome is not None:
                        return False
                    continue
                entry, settled = settle(batch, fence=batch.fence, outcome=outcome, now=now)
                if not settled:
                    return False
                entries.append((owner, batch.fence, entry))
            changes = () if record is None else changes_of(record)
            if not is_done(changes, self._memory.apply_now(trigger, changes)):
                return False
            for owner, number, entry in entries:
                if entry is not None:
                    space.ledger[number] = entry
                else:
                    del space.ledger[number], space.numbers[owner]
            return True

    async def lookup(self, trigger: str, uuids: Sequence[str]) -> Sequence[Entry | None]:
        """Read entries without claiming."""
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            return [space.read(digest(uuid), now) for uuid in uuids]

    async def scan(
        self, trigger: str, *, cursor: str | None = None, limit: int = 1000, part: ScanPart = WHOLE
    ) -> Page:
        """Read a part of the trigger's entries."""
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            first = int(cursor or 0)
            keys = [key for key in sorted(space.entries)[first : first + limit] if part.has(key)]
            entries = [
                ScannedEntry(key[:SHORT_DIGEST_SIZE], entry)
                for key in keys
                if (entry := space.read(key, now)) is not None
            ]
            more = first + limit < len(space.entries)
            return Page(entries, str(first + limit) if more else None)

    async def purge_some(self, trigger: str, cursor: str | None = None) -> Purged:
        """Check some entries, then some batches, and delete the expired ones."""
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            stage, first = (cursor or "entries 0").split()
            if stage == "entries":
                some = list(islice(space.entries, int(first), int(first) + PIECE))
                gone = [key for key in some if space.read(key, now) is None]
                for key in gone:
                    del space.entries[key]
                # The following entries have moved up by as many places.
                following = f"entries {int(first) + PIECE - len(gone)}"
                return Purged(len(gone), following if len(some) == PIECE else "batches 0")
            numbers = list(islice(space.ledger, int(first), int(first) + PIECE))
            over = [number for number in numbers if current(space.ledger[number], now) is None]
            for number in over:
                space.forget_batch(number)
            following = f"batches {int(first) + PIECE - len(over)}"
            return Purged(0, following if len(numbers) == PIECE else None)

    async def forget(self, trigger: str, uuid: str) -> bool:
        """Delete one entry in any state, and the fingerprint, result and failure beside it."""
        with self._lock:
            space, key = self._namespace(trigger), digest(uuid)
            there = space.read(key, self._clock()) is not None
            space.write(key, None)
            return self._memory.take(trigger, OF_ENTRIES, key) or there

    async def stats(self, trigger: str) -> HistoryStats:
        """Count entries by state."""
        with self._lock:
            space, now = self._namespace(trigger), self._clock()
            states = [entry.state for key in space.entries if (entry := space.read(key, now)) is not None]
            return HistoryStats(
                trigger=trigger,
                started=states.count(State.STARTED),
                completed=states.count(State.COMPLETED),
            )

    async def triggers(self) -> Sequence[str]:
        """Name the triggers with entries or decisions."""
        with self._lock:
            named = {name for name, space in self._namespaces.items() if space.entries}
            return sorted(named.union(await self._memory.triggers()))

    async def close(self) -> None:
        """Do nothing: the entries stay until the process ends."""

    def _namespace(self, trigger: str) -> _Namespace:
        return self._namespaces.setdefault(trigger, _Namespace())

    def _next_fence(self) -> Fence:
        self._fence += 1
        return Fence(self._fence)
