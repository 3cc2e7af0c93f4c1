"""Stale fences and repeated calls change nothing."""

from collections.abc import Sequence

import pytest

from history.contract.common import LONG, SHORT, TRIGGER, absent, claim_one, eventually, found, state_of
from history.entry import EntryOutcome, Fence, Renewal, Settlement, State
from history.message import Uuid
from history.store import CLAIM_BATCH, BatchOwner, HistoryStore, ManyLeases


class FenceContract:
    """A late worker can never overwrite or delete its successor's entry, and sending twice is harmless."""

    #: Whether the store is also a :class:`~history.store.ManyLeases`.
    renews_many = True

    async def test_an_entry_is_taken_over_with_a_greater_fence(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", "worker-1")

        taken = await store.take_over(TRIGGER, "u1", "worker-2", LONG, first.fence)

        entry = await found(store, "u1")
        assert taken is not None
        assert taken.found is None
        assert taken.fence > first.fence
        assert (entry.state, entry.owner, entry.fence) == (State.STARTED, "worker-2", taken.fence)
        assert entry.lease_alive

    async def test_of_two_that_take_over_one_succeeds(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", "worker-1")

        taken = await store.take_over(TRIGGER, "u1", "worker-2", None, first.fence)
        late = await store.take_over(TRIGGER, "u1", "worker-3", None, first.fence)

        assert taken is not None
        assert late is None
        assert (await found(store, "u1")).owner == "worker-2"

    async def test_taking_over_twice_with_one_token_is_idempotent(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", "worker-1")

        taken = await store.take_over(TRIGGER, "u1", "worker-2", None, first.fence)

        assert taken is not None
        assert await store.take_over(TRIGGER, "u1", "worker-2", None, first.fence) == taken

    async def test_what_is_absent_or_completed_cannot_be_taken_over(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1")
        await store.complete(TRIGGER, "u1", claimed.fence)

        assert await store.take_over(TRIGGER, "u1", "worker-2", None, claimed.fence) is None
        assert await store.take_over(TRIGGER, "nobody's", "worker-2", None, claimed.fence) is None
        assert (await found(store, "u1")).state is State.COMPLETED
        assert await absent(store, "nobody's")

    async def test_a_failed_entry_is_taken_over_where_that_is_asked_for(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1")
        await store.complete(TRIGGER, "u1", claimed.fence, EntryOutcome.FAILED)

        assert await store.take_over(TRIGGER, "u1", "worker-2", LONG, claimed.fence) is None
        taken = await store.take_over(TRIGGER, "u1", "worker-2", LONG, claimed.fence, failed=True)
        again = await store.take_over(TRIGGER, "u1", "worker-2", LONG, claimed.fence, failed=True)
        late = await store.take_over(TRIGGER, "u1", "worker-3", LONG, claimed.fence, failed=True)

        entry = await found(store, "u1")
        assert taken is not None
        assert taken.fence > claimed.fence
        assert again == taken, "sent twice"
        assert late is None
        assert (entry.state, entry.owner, entry.fence) == (State.STARTED, "worker-2", taken.fence)
        assert entry.lease_alive
        assert not await store.complete(TRIGGER, "u1", claimed.fence, EntryOutcome.FAILED)
        assert await store.complete(TRIGGER, "u1", taken.fence)
        assert state_of(await found(store, "u1")) is EntryOutcome.OK

    async def test_a_failed_entry_that_was_taken_over_counts_once(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1")
        await store.complete(TRIGGER, "u1", claimed.fence, EntryOutcome.FAILED)

        taken = await store.take_over(TRIGGER, "u1", "worker-2", None, claimed.fence, failed=True)
        assert taken is not None
        first = await store.stats(TRIGGER)
        await store.complete(TRIGGER, "u1", taken.fence, EntryOutcome.FAILED)
        second = await store.stats(TRIGGER)

        assert (first.started, first.completed, second.started, second.completed) == (1, 0, 0, 1)
        assert len((await store.scan(TRIGGER)).entries) == 1

    async def test_what_succeeded_is_not_taken_over_even_then(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1")
        await store.complete(TRIGGER, "u1", claimed.fence)

        assert await store.take_over(TRIGGER, "u1", "worker-2", None, claimed.fence, failed=True) is None
        assert await store.take_over(TRIGGER, "nobody's", "worker-2", None, 1, failed=True) is None
        assert state_of(await found(store, "u1")) is EntryOutcome.OK

    async def test_one_of_a_failed_batch_is_taken_over_alone(self, store: HistoryStore) -> None:
        batch = BatchOwner("query/1")
        claimed, _ = await store.claim(TRIGGER, ["u1", "u2"], batch)
        await store.settle_batch(TRIGGER, batch, EntryOutcome.FAILED)

        taken = await store.take_over(TRIGGER, "u1", "worker-2", None, claimed.fence, failed=True)

        assert taken is not None
        assert (await found(store, "u1")).owner == "worker-2"
        assert state_of(await found(store, "u2")) is EntryOutcome.FAILED
        assert await store.complete(TRIGGER, "u1", taken.fence)
        assert [state_of(await found(store, uuid)) for uuid in ("u1", "u2")] == list(EntryOutcome)

    async def test_a_late_worker_changes_nothing(self, store: HistoryStore) -> None:
        late = await claim_one(store, "u1", "worker-1", lease=LONG)
        taken = await store.take_over(TRIGGER, "u1", "worker-2", LONG, late.fence)
        assert taken is not None
        before = await found(store, "u1")

        assert not await store.complete(TRIGGER, "u1", late.fence)
        assert not await store.complete(TRIGGER, "u1", late.fence, EntryOutcome.FAILED)
        assert not await store.release(TRIGGER, "u1", late.fence)
        assert not await store.renew(TRIGGER, "u1", late.fence, 5 * LONG)

        after = await found(store, "u1")
        assert (after.state, after.owner, after.fence, after.lease_until) == (
            State.STARTED,
            "worker-2",
            taken.fence,
            before.lease_until,
        )

    async def test_a_late_worker_changes_nothing_of_what_its_successor_completed(
        self, store: HistoryStore
    ) -> None:
        late = await claim_one(store, "u1", "worker-1")
        taken = await store.take_over(TRIGGER, "u1", "worker-2", None, late.fence)
        assert taken is not None
        await store.complete(TRIGGER, "u1", taken.fence)

        assert not await store.complete(TRIGGER, "u1", late.fence, EntryOutcome.FAILED)
        assert not await store.complete(TRIGGER, "u1", late.fence)
        assert not await store.release(TRIGGER, "u1", late.fence)
        assert not await store.renew(TRIGGER, "u1", late.fence, LONG)
        assert state_of(await found(store, "u1")) is EntryOutcome.OK

    async def test_a_settlement_sent_twice_succeeds_twice(self, store: HistoryStore) -> None:
        done, undone = await store.claim(TRIGGER, ["done", "undone"], "worker-1")

        for _ in range(2):
            assert await store.complete(TRIGGER, "done", done.fence)
            assert await store.release(TRIGGER, "undone", undone.fence)

        assert state_of(await found(store, "done")) is EntryOutcome.OK
        assert await absent(store, "undone")

    async def test_what_is_completed_stays_as_it_is(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1")
        await store.complete(TRIGGER, "u1", claimed.fence)

        assert not await store.complete(TRIGGER, "u1", claimed.fence, EntryOutcome.FAILED)
        assert not await store.release(TRIGGER, "u1", claimed.fence)
        assert not await store.renew(TRIGGER, "u1", claimed.fence, LONG)
        assert state_of(await found(store, "u1")) is EntryOutcome.OK

    async def test_what_is_absent_cannot_be_completed_or_renewed(self, store: HistoryStore) -> None:
        assert not await store.complete(TRIGGER, "u1", 1)
        assert not await store.renew(TRIGGER, "u1", 1, LONG)
        assert await store.release(TRIGGER, "u1", 1)
        assert await absent(store, "u1")

    async def test_a_released_uuid_is_new_again(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", "worker-1")

        assert await store.release(TRIGGER, "u1", first.fence)

        assert await absent(store, "u1")
        second = await claim_one(store, "u1", "worker-2")
        assert second.found is None
        assert not await store.release(TRIGGER, "u1", first.fence)
        assert (await found(store, "u1")).owner == "worker-2"

    async def test_many_settlements_are_answered_in_order(self, store: HistoryStore) -> None:
        uuids = [f"u{n}" for n in range(2 * CLAIM_BATCH + 50)]
        claims = await store.claim(TRIGGER, uuids, "worker-1")
        wishes: Sequence[EntryOutcome | None] = (EntryOutcome.OK, EntryOutcome.FAILED, None)

        done = await store.settle(
            TRIGGER,
            [
                Settlement(Uuid(uuid), Fence(claim.fence + (n % 10 == 9) * 1_000_000), wishes[n % 3])
                for n, (uuid, claim) in enumerate(zip(uuids, claims, strict=True))
            ],
        )

        assert list(done) == [n % 10 != 9 for n in range(len(uuids))]
        for n, entry in enumerate(await store.lookup(TRIGGER, uuids)):
            assert state_of(entry) == (State.STARTED if n % 10 == 9 else wishes[n % 3])

    async def test_a_uuid_settled_twice_in_one_call_is_settled_in_order(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1")
        ok, failed = (Settlement(Uuid("u1"), claimed.fence, outcome) for outcome in EntryOutcome)

        assert list(await store.settle(TRIGGER, [ok, failed, ok])) == [True, False, True]
        assert state_of(await found(store, "u1")) is EntryOutcome.OK

    async def test_the_fence_grows_with_every_claim_of_a_uuid(self, store: HistoryStore) -> None:
        fences = [(await claim_one(store, "u1", "worker-1")).fence]
        await store.release(TRIGGER, "u1", fences[-1])
        fences.append((await claim_one(store, "u1", "worker-1")).fence)
        taken = await store.take_over(TRIGGER, "u1", "worker-2", None, fences[-1])
        assert taken is not None
        fences.append(taken.fence)
        assert await store.forget(TRIGGER, "u1")
        fences.append((await claim_one(store, "u1", "worker-3", time_to_live=SHORT)).fence)
        await eventually(lambda: absent(store, "u1"))
        await store.purge(TRIGGER)
        fences.append((await claim_one(store, "u1", "worker-4", time_to_live=SHORT)).fence)
        await eventually(lambda: absent(store, "u1"))
        fences.append((await claim_one(store, "u1", "worker-5")).fence)

        assert fences == sorted(set(fences))

    async def test_an_owner_changes_nothing_of_what_another_holds_under_its_fence(
        self, store: HistoryStore
    ) -> None:
        claimed = await claim_one(store, "u1", "worker-1", lease=LONG)
        before = await found(store, "u1")

        for outcome in (*EntryOutcome, None):
            (done,) = await store.settle(
                TRIGGER, [Settlement(Uuid("u1"), claimed.fence, outcome, "worker-2")]
            )
            assert not done
        assert not await store.renew(TRIGGER, "u1", claimed.fence, 5 * LONG, owner="worker-2")
        assert (
            await store.take_over(TRIGGER, "u1", "worker-3", None, claimed.fence, expected_owner="worker-2")
            is None
        )

        entry = await found(store, "u1")
        assert (entry.state, entry.owner, entry.lease_until) == (
            State.STARTED,
            "worker-1",
            before.lease_until,
        )

    async def test_an_owner_that_is_told_and_right_changes_what_it_holds(self, store: HistoryStore) -> None:
        first, second, third = await store.claim(TRIGGER, ["u1", "u2", "u3"], "worker-1", LONG)

        for _ in range(2):
            assert await store.complete(TRIGGER, "u1", first.fence, owner="worker-1")
            assert await store.release(TRIGGER, "u2", second.fence, owner="worker-1")
        assert await store.renew(TRIGGER, "u3", third.fence, LONG, owner="worker-1")
        taken = await store.take_over(TRIGGER, "u3", "worker-2", None, third.fence, expected_owner="worker-1")

        assert taken is not None
        assert state_of(await found(store, "u1")) is EntryOutcome.OK
        assert await absent(store, "u2")
        assert (await found(store, "u3")).owner == "worker-2"

    async def test_the_owner_of_what_a_batch_holds_is_the_batch(self, store: HistoryStore) -> None:
        batch = BatchOwner("query-1/7")
        claims = await store.claim(TRIGGER, ["u1", "u2", "u3"], batch, LONG)
        fence = claims[0].fence

        assert not await store.complete(TRIGGER, "u1", fence, owner="query-1/8")
        assert not await store.renew(TRIGGER, "u1", fence, LONG, owner="query-1/8")
        assert await store.take_over(TRIGGER, "u1", "w", None, fence, expected_owner="query-1/8") is None
        assert (await found(store, "u1")).owner == batch.token

        assert await store.renew(TRIGGER, "u1", fence, LONG, owner=batch.token)
        assert await store.complete(TRIGGER, "u1", fence, owner=batch.token)
        assert await store.release(TRIGGER, "u2", fence, owner=batch.token)
        assert await store.take_over(TRIGGER, "u3", "w", None, fence, expected_owner=batch.token) is not None

    async def test_a_renewal_that_arrives_twice_or_late_changes_nothing_of_what_came_after(
        self, store: HistoryStore
    ) -> None:
        claimed = await claim_one(store, "u1", "worker-1", lease=SHORT)
        assert await store.renew(TRIGGER, "u1", claimed.fence, LONG)
        assert await store.renew(TRIGGER, "u1", claimed.fence, LONG), "its answer was lost"
        assert await store.release(TRIGGER, "u1", claimed.fence)

        assert not await store.renew(TRIGGER, "u1", claimed.fence, LONG)
        assert await absent(store, "u1"), "a late renewal brings nothing back"
        again = await claim_one(store, "u1", "worker-2", lease=SHORT)
        before = await found(store, "u1")
        assert not await store.renew(TRIGGER, "u1", claimed.fence, LONG)

        after = await found(store, "u1")
        assert (after.lease_until, after.expires_at) == (before.lease_until, before.expires_at)
        assert again.fence > claimed.fence

    async def test_a_claim_that_is_sent_again_after_a_take_over_meets_the_new_owner(
        self, store: HistoryStore
    ) -> None:
        first = await claim_one(store, "u1", "worker-1")
        taken = await store.take_over(TRIGGER, "u1", "worker-2", LONG, first.fence)
        assert taken is not None

        late = await claim_one(store, "u1", "worker-1")

        assert late.found is not None
        assert (late.found.owner, late.fence) == ("worker-2", taken.fence)

    async def test_a_claim_or_take_over_that_is_sent_again_after_its_end_meets_that(
        self, store: HistoryStore
    ) -> None:
        first = await claim_one(store, "u1", "worker-1")
        taken = await store.take_over(TRIGGER, "u1", "worker-2", LONG, first.fence)
        assert taken is not None
        await store.complete(TRIGGER, "u1", taken.fence)

        assert await store.take_over(TRIGGER, "u1", "worker-2", LONG, first.fence) is None
        again = await claim_one(store, "u1", "worker-2")

        assert state_of(again.found) is EntryOutcome.OK
        assert again.fence == taken.fence

    async def test_a_settlement_that_is_sent_again_after_another_claim_changes_nothing_of_it(
        self, store: HistoryStore
    ) -> None:
        first = await claim_one(store, "u1", "worker-1")
        assert await store.release(TRIGGER, "u1", first.fence)
        second = await claim_one(store, "u1", "worker-2")

        assert not await store.release(TRIGGER, "u1", first.fence)
        assert not await store.complete(TRIGGER, "u1", first.fence)

        entry = await found(store, "u1")
        assert (entry.state, entry.owner, entry.fence) == (State.STARTED, "worker-2", second.fence)

    async def test_of_many_leases_each_is_renewed_by_its_own_fence_and_owner(
        self, store: HistoryStore
    ) -> None:
        many, batch = self.skip_without_many_leases(store), BatchOwner("query-1/7")
        uuids = ["taken", "twice", "mine", "owned", "other", "done", "gone"]
        fences = {
            uuid: (await claim_one(store, uuid, "w", lease=SHORT, time_to_live=LONG)).fence for uuid in uuids
        }
        fences["held"] = (await claim_one(store, "held", batch, lease=SHORT, time_to_live=LONG)).fence
        for uuid in ("taken", "twice"):
            assert await store.take_over(TRIGGER, uuid, "w2", SHORT, fences[uuid], time_to_live=LONG)
        new = (await found(store, "twice")).fence
        assert await store.complete(TRIGGER, "done", fences["done"])
        assert await store.release(TRIGGER, "gone", fences["gone"])
        before = [await found(store, uuid) for uuid in ("taken", "other")]
        wishes = {
            Renewal(Uuid("taken"), fences["taken"]): False,
            Renewal(Uuid("twice"), fences["twice"], "w"): False,
            Renewal(Uuid("mine"), fences["mine"]): True,
            Renewal(Uuid("owned"), fences["owned"], "w"): True,
            Renewal(Uuid("other"), fences["other"], "w2"): False,
            Renewal(Uuid("twice"), new, "w2"): True,
            Renewal(Uuid("done"), fences["done"]): False,
            Renewal(Uuid("gone"), fences["gone"]): False,
            Renewal(Uuid("nobody's"), Fence(1)): False,
            Renewal(Uuid("held"), fences["held"], "query-1/8"): False,
            Renewal(Uuid("held"), fences["held"], batch.token): True,
        }

        for _ in range(2):  # the answer may be lost, and the call is sent again
            assert list(await many.renew_many(TRIGGER, list(wishes), LONG / 2)) == list(wishes.values())

        for old, uuid in zip(before, ("taken", "other"), strict=True):
            entry = await found(store, uuid)
            assert (entry.lease_until, entry.expires_at) == (old.lease_until, old.expires_at)
        for uuid in ("twice", "mine", "owned", "held"):
            entry = await found(store, uuid)
            assert entry.lease_until is not None
            assert entry.lease_until > entry.read_at + LONG / 4
        assert (await found(store, "done")).outcome is EntryOutcome.OK
        assert await store.lookup(TRIGGER, ["gone", "nobody's"]) == [None, None]
        assert list(await many.renew_many(TRIGGER, [], LONG)) == []

    async def test_more_leases_than_one_call_takes_are_answered_in_order(self, store: HistoryStore) -> None:
        many = self.skip_without_many_leases(store)
        uuids = [Uuid(f"u{n}") for n in range(2 * CLAIM_BATCH + 50)]
        claims = await store.claim(TRIGGER, uuids, "worker-1", SHORT)

        renewed = await many.renew_many(
            TRIGGER,
            [
                Renewal(uuid, Fence(claim.fence + (n % 10 == 9) * 1_000_000), "worker-1")
                for n, (uuid, claim) in enumerate(zip(uuids, claims, strict=True))
            ],
            LONG,
        )

        assert list(renewed) == [n % 10 != 9 for n in range(len(uuids))]
        for n, entry in enumerate(await store.lookup(TRIGGER, uuids)):
            assert entry is not None
            assert entry.lease_until is not None
            assert (entry.lease_until > entry.started_at + LONG / 2) == (n % 10 != 9)

    def skip_without_many_leases(self, store: HistoryStore) -> ManyLeases:
        """Return the store as one that renews many; a store that cannot overrides ``renews_many``."""
        if not self.renews_many:
            pytest.skip("it renews one lease a call")
        assert isinstance(store, ManyLeases)
        return store
