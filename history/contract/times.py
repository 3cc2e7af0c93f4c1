"""Leases and times to live."""

from datetime import timedelta

from history.contract.common import LONG, PATIENCE, SHORT, TRIGGER, absent, claim_one, eventually, found
from history.store import HistoryStore


class TimeContract:
    """Leases and times to live, by the server's clock."""

    #: How coarse the instants of a completed entry may be; a subclass may say more.
    coarseness = timedelta(seconds=1)

    async def test_time_to_live_counts_from_the_claim(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", time_to_live=LONG)
        before = await found(store, "u1")

        await store.complete(TRIGGER, "u1", claimed.fence)

        after = await found(store, "u1")
        assert abs(before.expires_at - before.started_at - LONG) <= timedelta(milliseconds=1)
        assert timedelta(0) <= after.expires_at - before.expires_at <= self.coarseness
        assert abs(after.started_at - before.started_at) <= self.coarseness

    async def test_a_started_entry_is_absent_once_its_time_to_live_is_over(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", time_to_live=SHORT)

        await eventually(lambda: absent(store, "u1"))

        assert not await store.complete(TRIGGER, "u1", claimed.fence)
        assert not await store.renew(TRIGGER, "u1", claimed.fence, LONG)
        assert await store.take_over(TRIGGER, "u1", "worker-2", None, claimed.fence) is None
        assert (await claim_one(store, "u1", "worker-2")).found is None

    async def test_a_completed_entry_is_absent_once_its_time_to_live_is_over(
        self, store: HistoryStore
    ) -> None:
        claimed = await claim_one(store, "u1", "worker-1", time_to_live=3 * SHORT)
        assert await store.complete(TRIGGER, "u1", claimed.fence)

        await eventually(lambda: absent(store, "u1"))

        assert (await claim_one(store, "u1", "worker-2")).found is None

    async def test_a_claim_of_an_expired_entry_keeps_nothing_of_it(self, store: HistoryStore) -> None:
        old = await claim_one(store, "u1", "worker-1", lease=LONG, time_to_live=SHORT)
        await eventually(lambda: absent(store, "u1"))

        new = await claim_one(store, "u1", "worker-1")

        entry = await found(store, "u1")
        assert new.fence > old.fence
        assert (entry.fence, entry.lease_until, entry.outcome) == (new.fence, None, None)
        assert entry.expires_at - entry.read_at > LONG

    async def test_a_lease_ends(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", lease=SHORT)

        async def lease_is_over() -> bool:
            return not (await found(store, "u1")).lease_alive

        await eventually(lease_is_over)
        second = await claim_one(store, "u1", "worker-2", lease=SHORT)

        assert second.found is not None
        assert (second.found.owner, second.found.lease_alive) == ("worker-1", False)
        assert second.found.lease_until is not None
        assert await store.complete(TRIGGER, "u1", claimed.fence), (
            "a lease that is over is no fence that is stale"
        )

    async def test_a_lease_is_renewed_from_now(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", lease=SHORT)

        async def lease_is_over() -> bool:
            return not (await found(store, "u1")).lease_alive

        await eventually(lease_is_over)
        assert await store.renew(TRIGGER, "u1", claimed.fence, LONG)

        entry = await found(store, "u1")
        assert entry.lease_alive
        assert entry.lease_until is not None
        assert abs(entry.lease_until - entry.read_at - LONG) < timedelta(seconds=PATIENCE)
        assert entry.fence == claimed.fence
