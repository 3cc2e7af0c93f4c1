"""Verbs that a store need not write itself if it settles and purges many: the same for one entry."""

from datetime import timedelta

from history.entry import EntryOutcome, Fence, Renewal, Settlement
from history.identity import Uuid
from history.store.history import HistoryStore
from history.store.leases import ManyLeases
from history.store.owners import BatchOwner


class SingleVerbs:
    """``complete``, ``release``, ``renew``, ``settle_batch`` and ``purge``, made from verbs for many."""

    async def purge(self: HistoryStore, trigger: str) -> int:
        """Delete entries after their time to live; return how many."""
        deleted, cursor = await self.purge_some(trigger)
        while cursor is not None:
            more, cursor = await self.purge_some(trigger, cursor)
            deleted += more
        return deleted

    async def complete(
        self: HistoryStore,
        trigger: str,
        uuid: str,
        fence: int,
        outcome: EntryOutcome = EntryOutcome.OK,
        *,
        owner: str | None = None,
    ) -> bool:
        """Mark one claim COMPLETED; False, without a change, if the fence is stale or another's."""
        settlement = Settlement(Uuid(uuid), Fence(fence), EntryOutcome(outcome), owner)
        return (await self.settle(trigger, [settlement]))[0]

    async def release(
        self: HistoryStore, trigger: str, uuid: str, fence: int, *, owner: str | None = None
    ) -> bool:
        """Undo one claim, as if it had never been made; False if the fence is stale or another's."""
        return (await self.settle(trigger, [Settlement(Uuid(uuid), Fence(fence), None, owner)]))[0]

    async def renew(
        self: ManyLeases, trigger: str, uuid: str, fence: int, lease: timedelta, *, owner: str | None = None
    ) -> bool:
        """Prolong one lease; False if the fence is stale or another's, or if a batch would be over before."""
        return (await self.renew_many(trigger, [Renewal(Uuid(uuid), Fence(fence), owner)], lease))[0]

    async def settle_batch(
        self: HistoryStore, trigger: str, owner: BatchOwner, outcome: EntryOutcome | None
    ) -> bool:
        """Complete (or with None release) every entry that the batch still owns, with one write."""
        return await self.settle_batches(trigger, [owner], outcome)
