"""The protocol of a document history.

Batch first: a single message is a batch of one. All methods are coroutines; over a blocking driver they never
suspend and run through :func:`history.bridge.drive`, over an asyncio driver they are awaited. Writes may be
sent twice without harm, and everything after the claim compares the fence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, Protocol

from history.entry import DEFAULT_TIME_TO_LIVE, DIGEST_SIZE, Claim, Entry, EntryOutcome, Settlement
from history.errors import ConfigurationError
from history.store.control import Control
from history.store.joining import Joining
from history.store.owners import BatchOwner, Owner
from history.store.parking import Parking
from history.store.progress import BatchRecord, Progress

#: The most uuids that one round trip claims; longer calls are cut into such pieces.
CLAIM_BATCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStats:
    """How much a trigger remembers. ``completed`` counts what is stored, expired or not."""

    trigger: str
    started: int
    completed: int


@dataclass(frozen=True, slots=True)
class ScannedEntry:
    """One remembered entry; the uuid itself is not stored, only its 16-byte digest."""

    digest: bytes
    entry: Entry


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a scan. ``cursor`` continues it and is None at the end; a page may be empty before that."""

    entries: Sequence[ScannedEntry]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ScanPart:
    """One of the equal parts in which several may scan at once; ``of`` is a power of 2.

    Raises:
        ConfigurationError: there is no such part.
    """

    number: int
    of: int

    def __post_init__(self) -> None:
        if self.of < 1 or self.of & (self.of - 1):
            raise ConfigurationError("part", f"{self.of} parts are not possible", "use a power of 2")
        if not 0 <= self.number < self.of:
            raise ConfigurationError(
                "part", f"part {self.number} of {self.of} does not exist", "count from 0"
            )

    def has(self, key: bytes) -> bool:
        """Whether the digest is in this part, in a store that parts them by their first bytes."""
        begin, end = self.range
        return begin < key <= end

    @property
    def range(self) -> tuple[bytes, bytes]:
        """The digest before this part's first one, and its last."""
        size = 2 ** (8 * DIGEST_SIZE) // self.of
        begin, end = self.number * size - 1, (self.number + 1) * size - 1
        return b"" if begin < 0 else begin.to_bytes(DIGEST_SIZE), end.to_bytes(DIGEST_SIZE)


#: The one part that is everything.
WHOLE = ScanPart(0, 1)


class Purged(NamedTuple):
    """What a piece of a purge did. ``cursor`` continues it, and is None when everything was looked at."""

    deleted: int
    cursor: str | None


class HistoryStore(Protocol):
    """Remembers, per trigger and uuid, what was started and what was completed.

    Every method raises :class:`~history.errors.HistoryUnavailableError` when the server does not answer.
    Instances may be shared by threads; one made for asyncio belongs to one event loop.
    """

    @property
    def parking(self) -> Parking:
        """The parking lot that lives on the same server."""
        ...

    @property
    def control(self) -> Control:
        """Hands orders to running consumers, and keeps their states and statistics, on the same server."""
        ...

    @property
    def joining(self) -> Joining:
        """Where messages of several destinations wait for each other, on the same server."""
        ...

    @property
    def progress(self) -> Progress:
        """How far each query of Spark has come, on the same server."""
        ...

    def for_asyncio(self) -> "HistoryStore":
        """Return the same history through an asyncio driver, or itself where there is nothing to wait for."""
        ...

    async def check(self) -> Sequence[str]:
        """Return warnings about the server; refuse one that may silently forget.

        Raises:
            ConfigurationError: entries could be lost without notice on this server.
        """
        ...

    async def claim(
        self,
        trigger: str,
        uuids: Sequence[str],
        owner: Owner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[Claim]:
        """Look up each uuid and write STARTED where it is absent, atomically, in one round trip per 200.

        Claiming again with the same owner token is idempotent. A uuid that stands twice in one call is
        decided in order: its second place finds the entry that the first one wrote.

        Raises:
            ConfigurationError: the lease or the time to live is less than
                :data:`~history.entry.SHORTEST` or more than :data:`~history.entry.LONGEST`.
        """
        ...

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
        """Become the owner of a STARTED entry that still has ``expected_fence``; None when it has not.

        ``expected_owner``, if given, must still be its owner, too; see :class:`~history.entry.Settlement`.
        With ``failed`` also of one that is COMPLETED failed: of several who decide to run it again, one does.
        """
        ...

    async def adopt(
        self,
        trigger: str,
        expected: Sequence[tuple[str, int]],
        owner: BatchOwner,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[bool]:
        """Move STARTED entries, given as uuid and expected fence, into a batch, in one round trip per 200.

        No uuid stands twice. True for each that is the batch's now, or was already; False, and nothing
        changed, for a stale fence.
        """
        ...

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Complete or release many claims in one round trip per 200; False for each stale fence.

        Also for a STARTED entry whose owner is another than that of its settlement.
        """
        ...

    async def complete(
        self,
        trigger: str,
        uuid: str,
        fence: int,
        outcome: EntryOutcome = EntryOutcome.OK,
        *,
        owner: str | None = None,
    ) -> bool:
        """Mark one claim COMPLETED; False, and nothing changed, when the fence is stale or another's."""
        ...

    async def release(self, trigger: str, uuid: str, fence: int, *, owner: str | None = None) -> bool:
        """Undo one claim, as if it had never been made; False when the fence is stale or another's."""
        ...

    async def renew(
        self, trigger: str, uuid: str, fence: int, lease: timedelta, *, owner: str | None = None
    ) -> bool:
        """Prolong the lease of a STARTED entry to ``lease`` from now.

        False when the fence is stale, or ``owner`` is given and is not the entry's any more.
        The entry's life is prolonged with it, to twice as long as the run may have taken by then at least:
        it neither expires under a run that is alive, nor at the moment in which that completes. A batch's is
        not: False, too, for a lease that would outlive the batch of an entry.

        Raises:
            ConfigurationError: no store can hold the lease, as in :meth:`claim`.
        """
        ...

    async def settle_batch(self, trigger: str, owner: BatchOwner, outcome: EntryOutcome | None) -> bool:
        """Complete (or with None release) every entry that the batch still owns, with one write.

        Sending it twice succeeds twice; False when the batch is unknown or has ended otherwise.
        """
        ...

    async def settle_batches(
        self,
        trigger: str,
        owners: Sequence[BatchOwner],
        outcome: EntryOutcome | None,
        *,
        record: BatchRecord | None = None,
    ) -> bool:
        """Complete (or with None release) what several batches still own, all of it or nothing.

        ``record`` is kept in the same step, in the ledger of :attr:`progress`. Sending it twice succeeds
        twice. False, and nothing is written, when one of the batches is unknown or has ended
        otherwise, or when the record does not follow the one that is held.
        """
        ...

    async def lookup(self, trigger: str, uuids: Sequence[str]) -> Sequence[Entry | None]:
        """Read entries without claiming; None for an absent or expired one."""
        ...

    async def scan(
        self, trigger: str, *, cursor: str | None = None, limit: int = 1000, part: ScanPart = WHOLE
    ) -> Page:
        """Read some of what a trigger remembers, in no particular order, about ``limit`` entries.

        Several may each scan a ``part`` at once; all parts of the same size together are everything. A cursor
        is good for the part that it comes from.
        """
        ...

    async def purge(self, trigger: str) -> int:
        """Delete entries whose time to live is over; return how many."""
        ...

    async def purge_some(self, trigger: str, cursor: str | None = None) -> Purged:
        """Do one piece of a purge, which takes the server a few milliseconds however much is remembered.

        For who has something to do between the pieces. A piece may find nothing before the end.
        """
        ...

    async def forget(self, trigger: str, uuid: str) -> bool:
        """Delete one entry whatever its state, so that its uuid is NEW again; False when there was none.

        The fingerprint of its body and the kept result go, too, even without an entry: whatever body comes
        next is the first, and its answer the first answer.
        """
        ...

    async def stats(self, trigger: str) -> HistoryStats:
        """Count what a trigger remembers, without reading the entries where the store can."""
        ...

    async def triggers(self) -> Sequence[str]:
        """Name the triggers that this history has seen, sorted."""
        ...

    async def close(self) -> None:
        """Give the connections back. The store may not be used afterwards."""
        ...
