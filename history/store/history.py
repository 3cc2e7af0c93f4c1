"""The protocol of a document history.

Batch first: a single message is a batch of one. All methods are coroutines. Over a blocking driver they never
suspend and run through :func:`history.bridge.drive`; over an asyncio driver they are awaited. Writes may be
sent twice without harm, and all calls after the claim compare the fence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from history.entry import DEFAULT_TIME_TO_LIVE, DIGEST_SIZE, Claim, Entry, EntryOutcome, Settlement
from history.errors import ConfigurationError
from history.store.owners import BatchOwner, Owner

if TYPE_CHECKING:
    from history.store.progress import BatchRecord

#: The most uuids for which one round trip claims; longer calls are cut into pieces of this size.
CLAIM_BATCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStats:
    """How many entries a trigger has. ``completed`` counts stored entries, expired or not.

    ``is_about`` says that the numbers are estimates.
    """

    trigger: str
    started: int
    completed: int
    is_about: bool = False


@dataclass(frozen=True, slots=True)
class ScannedEntry:
    """One remembered entry; the uuid itself is not stored, only its :func:`~history.entry.short_digest`."""

    digest: bytes
    entry: Entry


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a scan. ``cursor`` continues it and is None at the end; a page may be empty before that."""

    entries: Sequence[ScannedEntry]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ScanPart:
    """One of the equal parts that several scans may read in parallel; ``of`` is a power of 2.

    Raises:
        ConfigurationError: this part does not exist.
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
        """Whether the digest is in this part, in a store that divides digests by their first bytes."""
        begin, end = self.range
        return begin < key <= end

    @property
    def range(self) -> tuple[bytes, bytes]:
        """The digest before this part's first one, and its last."""
        size = 2 ** (8 * DIGEST_SIZE) // self.of
        begin, end = self.number * size - 1, (self.number + 1) * size - 1
        return b"" if begin < 0 else begin.to_bytes(DIGEST_SIZE), end.to_bytes(DIGEST_SIZE)


#: The only part, with everything.
WHOLE = ScanPart(0, 1)


class Purged(NamedTuple):
    """The result of a piece of a purge. ``cursor`` continues the purge, and is None at its end."""

    deleted: int
    cursor: str | None


class HistoryStore(Protocol):
    """Remembers, per trigger and uuid, which runs started and which completed.

    Every method raises :class:`~history.errors.HistoryUnavailableError` when the server does not answer.
    Threads may share an instance; an asyncio instance belongs to one event loop. A store with
    :class:`~history.store.Records` is also a :class:`~history.beside.KeepsBeside`, which has the parking lot
    and more; :func:`history.beside.beside_of` returns it.
    """

    def for_asyncio(self) -> "HistoryStore":
        """Return the same history through an asyncio driver, or itself if it never waits."""
        ...

    async def check(self) -> Sequence[str]:
        """Return warnings about the server; refuse a server that may forget silently.

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
        """Look up each uuid and write STARTED if it is absent, atomically, in one round trip per 200.

        Claiming again with the same owner token is idempotent. If a uuid occurs twice in one call, both are
        processed in order: the second finds the entry that the first wrote.

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
        """Become the owner of a STARTED entry that still has ``expected_fence``; return None if it does not.

        If ``expected_owner`` is given, it must also be the owner; see :class:`~history.entry.Settlement`.
        ``failed`` allows an entry that is COMPLETED failed: if several decide to run it again, one does.
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

        No uuid may occur twice. True for each entry that is the batch's now, or was already; False, without a
        change, for a stale fence.
        """
        ...

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Complete or release many claims in one round trip per 200; False for each stale fence.

        False also for a STARTED entry with another owner than its settlement.
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
        """Mark one claim COMPLETED; False, without a change, if the fence is stale or another's."""
        ...

    async def release(self, trigger: str, uuid: str, fence: int, *, owner: str | None = None) -> bool:
        """Undo one claim, as if it had never been made; False if the fence is stale or another's."""
        ...

    async def renew(
        self, trigger: str, uuid: str, fence: int, lease: timedelta, *, owner: str | None = None
    ) -> bool:
        """Prolong the lease of a STARTED entry to ``lease`` from now.

        False if the fence is stale, or if ``owner`` is given and the entry has another owner. The entry's
        life grows as well, to at least twice the longest time that the run may have taken. So it cannot
        expire during the run, or just when the run completes. The life of a batch does not grow: a lease that
        would outlive the entry's batch is refused with False.

        Raises:
            ConfigurationError: no store can hold the lease, as in :meth:`claim`.
        """
        ...

    async def settle_batch(self, trigger: str, owner: BatchOwner, outcome: EntryOutcome | None) -> bool:
        """Complete (or with None release) every entry that the batch still owns, with one write.

        Sending it twice succeeds twice; False if the batch is unknown or has ended in another way.
        """
        ...

    async def settle_batches(
        self,
        trigger: str,
        owners: Sequence[BatchOwner],
        outcome: EntryOutcome | None,
        *,
        record: "BatchRecord | None" = None,
    ) -> bool:
        """Complete (or with None release) the entries that several batches still own, all of them or none.

        The same step stores ``record`` in the ledger of batches. Sending it twice succeeds twice.
        False, without a change, if a batch is unknown or has ended in another way, or if the record does not
        follow the stored one.
        """
        ...

    async def lookup(self, trigger: str, uuids: Sequence[str]) -> Sequence[Entry | None]:
        """Read entries without claiming; None for an absent or expired entry."""
        ...

    async def scan(
        self, trigger: str, *, cursor: str | None = None, limit: int = 1000, part: ScanPart = WHOLE
    ) -> Page:
        """Read some of a trigger's entries, in no particular order, about ``limit`` of them.

        Several scans may run in parallel, each for one ``part``; all parts of one size together are
        everything. A cursor is only valid for its own part.
        """
        ...

    async def purge(self, trigger: str) -> int:
        """Delete entries after their time to live; return how many."""
        ...

    async def purge_some(self, trigger: str, cursor: str | None = None) -> Purged:
        """Do one piece of a purge, which takes the server a few milliseconds however many entries there are.

        For callers with other work between the pieces. A piece may find nothing before the end.
        """
        ...

    async def forget(self, trigger: str, uuid: str) -> bool:
        """Delete one entry in any state, so that its uuid is NEW again; False if there was none.

        Its fingerprint, kept result and kept failure are also deleted, even without an entry: the next body
        and its result become the first ones.
        """
        ...

    async def stats(self, trigger: str) -> HistoryStats:
        """Count a trigger's entries, without reading them if the store can."""
        ...

    async def triggers(self) -> Sequence[str]:
        """Return the names of the triggers that this history has seen, sorted."""
        ...

    async def close(self) -> None:
        """Give the connections back. The store may not be used afterwards."""
        ...


class FoundInPiece(NamedTuple):
    """The existing entries of some consecutive digests.

    ``indexes`` has one byte for each digest, which is an index of ``entries``. The first of these is None:
    the owner has claimed the digest.
    """

    indexes: bytes
    entries: Sequence[Entry | None]


@runtime_checkable
class PackedClaims(Protocol):
    """An optional verb of a history: claim for a batch without making an object of each row.

    Without it, the rows of a batch are claimed by ``claim``.
    """

    async def claim_packed(
        self,
        trigger: str,
        digests: bytes,
        owner: BatchOwner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[FoundInPiece]:
        """Claim as :meth:`~history.store.HistoryStore.claim` does, by :func:`history.entry.digests`.

        No digest may occur twice. The pieces of the answer are in the order of the digests.
        """
        ...
