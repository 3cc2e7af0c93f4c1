"""A server that comes back with older data: a restored backup, a power cut, a replica that lagged."""

from collections.abc import Awaitable, Callable

import pytest

from history.contract.common import LONG, TRIGGER, claim_one, found, state_of
from history.entry import EntryOutcome, State
from history.store import BatchOwner, HistoryStore

#: Restores a server's earlier data; clients stay as they are.
Restore = Callable[[], Awaitable[None]]


class RollbackContract:
    """No fence is granted twice to a client that can know, and owners distinguish the other fences."""

    async def snapshot(self, store: HistoryStore) -> Restore | None:  # noqa: ARG002
        """Save the data of the server of ``store``; None if that is impossible.

        A subclass overrides this if its server has data that outlive the server.
        """
        return None

    async def _snapshot(self, store: HistoryStore) -> Restore:
        restore = await self.snapshot(store)
        if restore is None:
            pytest.skip("this store has no data that could become older")
        return restore

    async def test_fences_go_on_above_those_that_were_granted_and_forgotten(
        self, store: HistoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        first = await claim_one(store, "u0", "worker-0")
        restore = await self._snapshot(store)
        lost = await store.claim(TRIGGER, [f"u{n}" for n in range(1, 6)], "worker-1")
        await restore()
        caplog.clear()

        after = await store.claim(TRIGGER, ["u1", "v1", "v2"], "worker-2")
        later = await claim_one(store, "v3", "worker-2")

        assert [claim.found for claim in after] == [None] * 3
        assert min(claim.fence for claim in [*after, later]) > max(claim.fence for claim in lost)
        assert await store.complete(TRIGGER, "u1", after[0].fence, owner="worker-2")
        assert await store.complete(TRIGGER, "u0", first.fence, owner="worker-0")
        logged = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
        assert len(logged) == 1
        assert "is older than it was" in logged[0]

    async def test_a_take_over_after_a_rollback_gets_a_fence_of_its_own(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u0", "worker-0")
        restore = await self._snapshot(store)
        lost = await store.claim(TRIGGER, [f"u{n}" for n in range(1, 6)], "worker-1")
        await restore()

        taken = await store.take_over(TRIGGER, "u0", "worker-2", None, first.fence)

        assert taken is not None
        assert taken.fence > max(claim.fence for claim in lost)
        assert (await found(store, "u0")).fence == taken.fence

    async def test_who_holds_the_same_fence_twice_is_told_apart(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        await claim_one(store, "u0", "worker-0")
        restore = await self._snapshot(store)
        late = await claim_one(store, "u1", "worker-1", lease=LONG)
        await restore()
        # This client was never granted a fence, and so cannot know.
        mine = await claim_one(another, "u1", "worker-2", lease=LONG)
        assert mine.found is None

        assert not await store.release(TRIGGER, "u1", late.fence, owner="worker-1")
        assert not await store.complete(TRIGGER, "u1", late.fence, owner="worker-1")
        assert not await store.renew(TRIGGER, "u1", late.fence, 5 * LONG, owner="worker-1")

        entry = await found(another, "u1")
        assert (entry.state, entry.owner, entry.fence) == (State.STARTED, "worker-2", mine.fence)
        assert await another.complete(TRIGGER, "u1", mine.fence, owner="worker-2")

    async def test_what_was_remembered_is_remembered_after_a_rollback(self, store: HistoryStore) -> None:
        done, batch = await claim_one(store, "done", "worker-1"), BatchOwner("query-1/7")
        await store.complete(TRIGGER, "done", done.fence)
        await store.claim(TRIGGER, ["b1", "b2"], batch)
        await store.settle_batch(TRIGGER, batch, EntryOutcome.OK)
        restore = await self._snapshot(store)
        await claim_one(store, "lost", "worker-1")
        await restore()

        claims = await store.claim(TRIGGER, ["new", "done", "b1", "b2"], "worker-2")
        again = await store.claim(TRIGGER, ["b1", "b2", "b3"], BatchOwner("query-1/8"))

        ok = EntryOutcome.OK
        assert [state_of(claim.found) for claim in claims] == [None, ok, ok, ok]
        assert [state_of(claim.found) for claim in again] == [ok, ok, None]
        assert await store.complete(TRIGGER, "done", done.fence), "completing it twice succeeds twice"
