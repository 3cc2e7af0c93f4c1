"""Adopting entries into a batch."""

from history.contract.common import TRIGGER, claim_one, found, state_of
from history.entry import EntryOutcome, State
from history.store import BatchOwner, HistoryStore


class AdoptionContract:
    """Entries that another owner has started become a batch's own."""

    #: The batch that adopts, and an earlier run of it.
    batch, earlier = BatchOwner("query-1/7/b"), BatchOwner("query-1/7/a")

    async def test_adopted_entries_complete_with_the_batch(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        uuids = [f"u{n}" for n in range(1500)]
        claims = await store.claim(TRIGGER, uuids, self.earlier)
        single = await claim_one(store, "single", "worker-1")
        wanted = [(uuid, claim.fence) for uuid, claim in zip(uuids, claims, strict=True)]

        adopted = await another.adopt(TRIGGER, [*wanted, ("single", single.fence)], self.batch)

        assert set(adopted) == {True}
        mine = await another.claim(TRIGGER, [*uuids, "single"], self.batch)
        assert {claim.found for claim in mine} == {None}
        assert await store.settle_batch(TRIGGER, self.earlier, EntryOutcome.FAILED)
        assert (await found(store, "u7")).state is State.STARTED
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        entries = await store.lookup(TRIGGER, [*uuids, "single"])
        assert {state_of(entry) for entry in entries} == {EntryOutcome.OK}

    async def test_adopting_twice_succeeds_twice(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", self.earlier)

        assert await store.adopt(TRIGGER, [("u1", first.fence)], self.batch) == [True]
        assert await store.adopt(TRIGGER, [("u1", first.fence)], self.batch) == [True]
        assert (await found(store, "u1")).owner == self.batch.token

    async def test_what_is_stale_completed_or_absent_is_not_adopted(self, store: HistoryStore) -> None:
        done = await claim_one(store, "done", "worker-1")
        await store.complete(TRIGGER, "done", done.fence)
        standing = await claim_one(store, "held", "worker-1")

        wanted = [("done", done.fence), ("held", standing.fence - 1), ("absent", 1)]
        assert await store.adopt(TRIGGER, wanted, self.batch) == [False, False, False]

        assert state_of(await found(store, "done")) is EntryOutcome.OK
        assert (await found(store, "held")).owner == "worker-1"
        assert await store.lookup(TRIGGER, ["absent"]) == [None]

    async def test_who_was_adopted_from_can_settle_it_no_more(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", "worker-1")
        await store.adopt(TRIGGER, [("u1", first.fence)], self.batch)

        assert not await store.complete(TRIGGER, "u1", first.fence)
        assert (await found(store, "u1")).state is State.STARTED

    async def test_a_completed_batch_adopts_under_a_new_number(self, store: HistoryStore) -> None:
        await claim_one(store, "u1", self.batch)
        await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        other = await claim_one(store, "u2", "worker-1")

        assert await store.adopt(TRIGGER, [("u2", other.fence)], self.batch) == [True]

        assert (await found(store, "u2")).state is State.STARTED
