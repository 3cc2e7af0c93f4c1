"""What a store that settles and purges many has no need to write itself: the same for a single entry."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, Self

from history.entry import EntryOutcome, Fence, Renewal, Settlement
from history.message import Uuid
from history.store.history import Purged
from history.store.leases import ManyLeases
from history.store.owners import BatchOwner
from history.store.progress import BatchRecord


class SingleVerbs:
    """Verbs made of those that do many: ``complete``, ``release``, ``renew``, ``settle_batch``, ``purge``."""

    async def purge(self: "_PurgesSome", trigger: str) -> int:
        """Delete entries whose time to live is over; return how many."""
        deleted, cursor = await self.purge_some(trigger)
        while cursor is not None:
            more, cursor = await self.purge_some(trigger, cursor)
            deleted += more
        return deleted

    async def complete(
        self: "_Settles",
        trigger: str,
        uuid: str,
        fence: int,
        outcome: EntryOutcome = EntryOutcome.OK,
        *,
        owner: str | None = None,
    ) -> bool:
        """Mark one claim COMPLETED; False, and nothing changed, when the fence is stale or another's."""
        settlement = Settlement(Uuid(uuid), Fence(fence), EntryOutcome(outcome), owner)
        return (await self.settle(trigger, [settlement]))[0]

    async def release(
        self: "_Settles", trigger: str, uuid: str, fence: int, *, owner: str | None = None
    ) -> bool:
        """Undo one claim, as if it had never been made; False when the fence is stale or another's."""
        return (await self.settle(trigger, [Settlement(Uuid(uuid), Fence(fence), None, owner)]))[0]

    async def renew(
        self: ManyLeases,
        trigger: str,
        uuid: str,
        fence: int,
        lease: timedelta,
        *,
        owner: str | None = None,
    ) -> bool:
        """Prolong one lease; False when the fence is stale or another's, or a batch would be over before."""
        return (await self.renew_many(trigger, [Renewal(Uuid(uuid), Fence(fence), owner)], lease))[0]

    async def settle_batch(
        self: "_Settles", trigger: str, owner: BatchOwner, outcome: EntryOutcome | None
    ) -> bool:
        """Complete (or with None release) every entry that the batch still owns, with one write."""
        return await self.settle_batches(trigger, [owner], outcome)


class _Settles(Protocol):
    async def settle(self: Self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]: ...

    async def settle_batches(
        self: Self,
        trigger: str,
        owners: Sequence[BatchOwner],
        outcome: EntryOutcome | None,
        *,
        record: BatchRecord | None = None,
    ) -> bool: ...


class _PurgesSome(Protocol):
    async def purge_some(self: Self, trigger: str, cursor: str | None = None) -> Purged: ...
