"""Batches as owners."""

from datetime import UTC, datetime

import pytest

from history.beside.progress import Progress, begin
from history.contract.common import LONG, SHORT, TRIGGER, absent, claim_one, eventually, found, state_of
from history.contract.records import records_in
from history.entry import EntryOutcome, State
from history.store import BatchLeases, BatchOwner, HistoryStore
from history.store.progress import BatchState, Beginning, changed

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class BatchContract:
    """Batches: thousands of claims, one write to end them."""

    #: The batch of these checks.
    batch = BatchOwner("query-1/7")

    #: Whether the store is also a :class:`~history.store.BatchLeases`.
    renews_batches = True

    async def test_a_batch_completes_thousands_with_one_write(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        uuids = [f"u{n}" for n in range(3000)]
        claims = await store.claim(TRIGGER, uuids, self.batch)
        assert all(claim.found is None for claim in claims)
        (started,) = await another.claim(TRIGGER, ["u2999"], "worker-1")
        assert started.found is not None
        assert (started.found.state, started.found.owner) == (State.STARTED, self.batch.token)
        assert started.found.batch

        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)

        again = await another.claim(TRIGGER, uuids, "worker-1")
        assert {state_of(claim.found) for claim in again} == {EntryOutcome.OK}
        assert [claim.fence for claim in again] == [claim.fence for claim in claims]
        assert {(claim.found.owner, claim.found.batch) for claim in again if claim.found} == {
            (self.batch.token, True)
        }

    async def test_a_batch_fails_as_a_whole(self, store: HistoryStore) -> None:
        await store.claim(TRIGGER, ["u1", "u2"], self.batch)

        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.FAILED)

        entries = await store.lookup(TRIGGER, ["u1", "u2"])
        assert [state_of(entry) for entry in entries] == [EntryOutcome.FAILED] * 2

    async def test_a_batch_is_released(self, store: HistoryStore) -> None:
        await store.claim(TRIGGER, ["u1", "u2"], self.batch)

        assert await store.settle_batch(TRIGGER, self.batch, None)

        assert await absent(store, "u1")
        assert [claim.found for claim in await store.claim(TRIGGER, ["u1", "u2"], "worker-1")] == [None, None]

    async def test_a_batch_settled_twice_succeeds_twice(self, store: HistoryStore) -> None:
        await store.claim(TRIGGER, ["u1"], self.batch)

        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        assert not await store.settle_batch(TRIGGER, self.batch, EntryOutcome.FAILED)
        assert not await store.settle_batch(TRIGGER, self.batch, None)
        assert state_of(await found(store, "u1")) is EntryOutcome.OK

    async def test_an_unknown_batch_cannot_be_completed(self, store: HistoryStore) -> None:
        assert not await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        assert await store.settle_batch(TRIGGER, self.batch, None)

    async def test_a_batch_that_found_only_duplicates_is_completed(self, store: HistoryStore) -> None:
        await claim_one(store, "u1", "worker-1")
        await store.claim(TRIGGER, ["u1"], self.batch)

        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)

        assert (await found(store, "u1")).owner == "worker-1"

    async def test_a_batch_of_another_trigger_is_another_batch(self, store: HistoryStore) -> None:
        await store.claim("a", ["u1"], self.batch)
        await store.claim("b", ["u1"], self.batch)

        assert await store.settle_batch("a", self.batch, EntryOutcome.OK)

        assert (await found(store, "u1", "a")).state is State.COMPLETED
        assert (await found(store, "u1", "b")).state is State.STARTED

    async def test_a_batch_tried_again_gets_what_it_had(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        first = await store.claim(TRIGGER, ["u1", "u2"], self.batch)

        again = await another.claim(TRIGGER, ["u2", "u1", "u3"], BatchOwner(self.batch.token))

        assert [claim.found for claim in again] == [None, None, None]
        assert again[1] == first[0]
        assert again[0] == first[1]

    async def test_a_batch_finds_the_second_place_of_a_uuid(self, store: HistoryStore) -> None:
        claims = await store.claim(TRIGGER, ["u1", "u1", "u2"], self.batch)

        assert [claim.found is None for claim in claims] == [True, False, True]
        assert state_of(claims[1].found) is State.STARTED

    async def test_a_batch_finds_what_others_hold(self, store: HistoryStore) -> None:
        await claim_one(store, "single", "worker-1")
        await store.claim(TRIGGER, ["batched"], BatchOwner("query-1/6"))

        claims = await store.claim(TRIGGER, ["single", "batched", "free"], self.batch)

        assert [claim.found and claim.found.owner for claim in claims] == ["worker-1", "query-1/6", None]
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        entries = await store.lookup(TRIGGER, ["single", "batched", "free"])
        assert [state_of(entry) for entry in entries] == [State.STARTED, State.STARTED, EntryOutcome.OK]

    async def test_a_batch_finds_what_others_hold_while_it_adds_thousands(self, store: HistoryStore) -> None:
        old = [f"held{n}" for n in range(1500)]
        await store.claim(TRIGGER, old, BatchOwner("query-1/6"))
        mixed = [uuid for n, met in enumerate(old) for uuid in (f"new{n}", met)]

        claims = await store.claim(TRIGGER, mixed, self.batch)

        assert [claim.found and claim.found.owner for claim in claims] == [None, "query-1/6"] * len(old)

    async def test_an_entry_taken_over_from_a_batch_does_not_complete_with_it(
        self, store: HistoryStore
    ) -> None:
        first, _ = await store.claim(TRIGGER, ["u1", "u2"], self.batch)

        taken = await store.take_over(TRIGGER, "u1", "worker-1", None, first.fence)
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)

        entry = await found(store, "u1")
        assert taken is not None
        assert taken.fence > first.fence
        assert (entry.state, entry.owner, entry.fence) == (State.STARTED, "worker-1", taken.fence)
        assert not await store.complete(TRIGGER, "u1", first.fence)
        assert state_of(await found(store, "u2")) is EntryOutcome.OK

    async def test_an_entry_of_a_batch_may_be_settled_by_itself(self, store: HistoryStore) -> None:
        claims = await store.claim(TRIGGER, ["bad", "later", "rest"], self.batch)

        assert await store.complete(TRIGGER, "bad", claims[0].fence, EntryOutcome.FAILED)
        assert await store.release(TRIGGER, "later", claims[1].fence)
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)

        entries = await store.lookup(TRIGGER, ["bad", "later", "rest"])
        assert [state_of(entry) for entry in entries] == [EntryOutcome.FAILED, None, EntryOutcome.OK]

    async def test_renewing_an_entry_of_a_batch_keeps_it_in_the_batch(self, store: HistoryStore) -> None:
        first, _ = await store.claim(TRIGGER, ["u1", "u2"], self.batch, SHORT)

        assert await store.renew(TRIGGER, "u1", first.fence, LONG)
        assert (await found(store, "u1")).lease_alive
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)

        entries = await store.lookup(TRIGGER, ["u1", "u2"])
        assert [state_of(entry) for entry in entries] == [EntryOutcome.OK] * 2

    async def test_a_batch_s_lease_is_renewed_as_a_whole_and_by_whoever_knows_its_token(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        await store.claim(TRIGGER, ["u1", "u2"], self.batch, SHORT)
        await store.claim(TRIGGER, ["u3"], BatchOwner("query-1/8"), SHORT)

        assert await self.renew(another, self.batch)
        assert await self.renew(another, self.batch)

        await eventually(lambda: _is_dead(store, "u3"))
        entries = await store.lookup(TRIGGER, ["u1", "u2"])
        assert [entry and (entry.state, entry.lease_alive) for entry in entries] == [
            (State.STARTED, True)
        ] * 2
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)

    async def test_a_batch_without_a_lease_is_given_one(self, store: HistoryStore) -> None:
        (claim,) = await store.claim(TRIGGER, ["u1"], self.batch)

        assert await self.renew(store, self.batch)

        entry = await found(store, "u1")
        assert (entry.lease_alive, entry.fence) == (True, claim.fence)

    async def test_what_is_adopted_has_the_lease_of_its_batch(self, store: HistoryStore) -> None:
        dead = await claim_one(store, "u1", BatchOwner("query-1/6"))
        await claim_one(store, "u2", self.batch, lease=LONG)

        assert await store.adopt(TRIGGER, [("u1", dead.fence)], self.batch) == [True]

        assert (await found(store, "u1")).lease_alive

    async def test_a_batch_that_is_unknown_or_has_ended_is_not_renewed(self, store: HistoryStore) -> None:
        assert not await self.renew(store, self.batch)
        for outcome in (None, EntryOutcome.OK):
            await store.claim(TRIGGER, ["u1"], self.batch, LONG)
            await store.settle_batch(TRIGGER, self.batch, outcome)

            assert not await self.renew(store, self.batch)

        assert state_of(await found(store, "u1")) is EntryOutcome.OK

    async def test_a_batch_opened_again_is_renewed_and_what_it_had_completed_is_not(
        self, store: HistoryStore
    ) -> None:
        await store.claim(TRIGGER, ["u1"], self.batch)
        await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        await store.claim(TRIGGER, ["u2"], self.batch, SHORT)

        assert await self.renew(store, self.batch)

        done, running = await store.lookup(TRIGGER, ["u1", "u2"])
        assert state_of(done) is EntryOutcome.OK
        assert running is not None
        assert running.lease_alive

    async def test_a_lease_does_not_outlive_its_batch(self, store: HistoryStore) -> None:
        await store.claim(TRIGGER, ["u1"], self.batch, SHORT, time_to_live=LONG / 2)
        before = await found(store, "u1")

        assert not await self.renew(store, self.batch)

        after = await found(store, "u1")
        assert (after.lease_until, after.expires_at) == (before.lease_until, before.expires_at)

    async def test_a_batch_is_of_its_trigger(self, store: HistoryStore) -> None:
        await store.claim("other", ["u1"], self.batch, SHORT)

        assert not await self.renew(store, self.batch)

    async def renew(self, store: HistoryStore, batch: BatchOwner) -> bool:
        """Prolong a batch's lease to ``LONG``; skip the check if the store cannot."""
        return await self.skip_without_batch_leases(store).renew_batch(TRIGGER, batch, LONG)

    def skip_without_batch_leases(self, store: HistoryStore) -> BatchLeases:
        """Return the store as one that renews batches; a store that cannot overrides ``renews_batches``."""
        if not self.renews_batches:
            pytest.skip("it renews no batches")
        assert isinstance(store, BatchLeases)
        return store

    async def test_a_released_and_reopened_batch_does_not_resurrect_its_former_entries(
        self, store: HistoryStore
    ) -> None:
        first = await store.claim(TRIGGER, ["u1", "u2"], self.batch)
        await store.settle_batch(TRIGGER, self.batch, None)

        again = await store.claim(TRIGGER, ["u2"], self.batch)
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)

        assert again[0].found is None
        assert again[0].fence > first[0].fence
        assert await absent(store, "u1")
        assert state_of(await found(store, "u2")) is EntryOutcome.OK

    async def test_what_a_completed_batch_claims_afterwards_is_started(self, store: HistoryStore) -> None:
        await store.claim(TRIGGER, ["u1"], self.batch)
        await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)

        replay = await store.claim(TRIGGER, ["u1", "u2"], self.batch)

        assert state_of(replay[0].found) is EntryOutcome.OK
        assert replay[1].found is None
        assert state_of(await found(store, "u2")) is State.STARTED
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        entries = await store.lookup(TRIGGER, ["u1", "u2"])
        assert [state_of(entry) for entry in entries] == [EntryOutcome.OK] * 2

    async def test_a_reopened_batch_is_released_without_what_it_had_completed(
        self, store: HistoryStore
    ) -> None:
        await store.claim(TRIGGER, ["u1"], self.batch)
        await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        await store.claim(TRIGGER, ["u2"], self.batch)

        assert await store.settle_batch(TRIGGER, self.batch, None)
        assert await store.settle_batch(TRIGGER, self.batch, None)

        entries = await store.lookup(TRIGGER, ["u1", "u2"])
        assert [state_of(entry) for entry in entries] == [EntryOutcome.OK, None]

    async def test_the_entries_of_a_batch_expire(self, store: HistoryStore) -> None:
        await store.claim(TRIGGER, ["u1"], self.batch, time_to_live=3 * SHORT)
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)

        await eventually(lambda: absent(store, "u1"))

        await store.purge(TRIGGER)
        assert (await claim_one(store, "u1", self.batch)).found is None
        assert state_of(await found(store, "u1")) is State.STARTED

    async def test_several_batches_are_settled_together_and_twice(self, store: HistoryStore) -> None:
        other = BatchOwner("query-1/7+")
        await store.claim(TRIGGER, ["u1", "u2"], self.batch)
        await store.claim(TRIGGER, ["u3"], other)

        for _ in range(2):
            assert await store.settle_batches(TRIGGER, [self.batch, other], EntryOutcome.OK)

        entries = await store.lookup(TRIGGER, ["u1", "u2", "u3"])
        assert [state_of(entry) for entry in entries] == [EntryOutcome.OK] * 3
        assert not await store.settle_batches(TRIGGER, [self.batch, other], None)
        assert await store.settle_batches(TRIGGER, [], EntryOutcome.OK)

    async def test_several_batches_are_released_together_and_open_again_empty(
        self, store: HistoryStore
    ) -> None:
        other = BatchOwner("query-1/7+")
        await store.claim(TRIGGER, ["u1", "u2"], self.batch)
        await store.claim(TRIGGER, ["u3"], other)

        for _ in range(2):
            assert await store.settle_batches(TRIGGER, [self.batch, other], None)

        assert [await absent(store, uuid) for uuid in ("u1", "u2", "u3")] == [True] * 3
        await store.claim(TRIGGER, ["u4"], self.batch)
        await store.claim(TRIGGER, ["u5"], other)
        assert await store.settle_batches(TRIGGER, [self.batch, other], EntryOutcome.OK)
        entries = await store.lookup(TRIGGER, ["u1", "u2", "u3", "u4", "u5"])
        assert [state_of(entry) for entry in entries] == [None] * 3 + [EntryOutcome.OK] * 2
        stats = await store.stats(TRIGGER)
        assert (stats.started, stats.completed) == (0, 2)

    @pytest.mark.parametrize("index", [0, 1, 2])
    @pytest.mark.parametrize("other_end", [None, EntryOutcome.FAILED], ids=["unknown", "failed"])
    async def test_where_one_batch_cannot_be_completed_none_is(
        self, store: HistoryStore, index: int, other_end: EntryOutcome | None
    ) -> None:
        owners = [BatchOwner(f"query-1/7/{n}") for n in range(3)]
        for n, owner in enumerate(owners):
            if n != index or other_end is not None:
                await store.claim(TRIGGER, [f"u{n}"], owner)
        if other_end is not None:
            await store.settle_batch(TRIGGER, owners[index], other_end)

        assert not await store.settle_batches(TRIGGER, owners, EntryOutcome.OK)

        entries = await store.lookup(TRIGGER, [f"u{n}" for n in range(3)])
        assert [state_of(entry) for entry in entries] == [
            other_end if n == index else State.STARTED for n in range(3)
        ]

    async def test_what_is_settled_is_noted_in_the_same_step(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        progress = Progress(records_in(store))
        run = Beginning(query="query-1", batch=7, lineage="lineage-1", run="a")
        begun = await begin(progress, TRIGGER, run, NOW)
        done = changed(begun, "a", BatchState.COMPLETED, NOW, {"rows": 1})
        await store.claim(TRIGGER, ["u1"], self.batch)

        for _ in range(2):
            assert await store.settle_batches(TRIGGER, [self.batch], EntryOutcome.OK, record=done)

        assert await Progress(records_in(another)).read(TRIGGER, "query-1", 7) == done
        assert [record.batch for record in await Progress(records_in(another)).latest(TRIGGER)] == [7]
        assert state_of(await found(store, "u1")) is EntryOutcome.OK

    async def test_a_run_that_somebody_began_anew_settles_nothing(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        progress = Progress(records_in(store))
        run = Beginning(query="query-1", batch=7, lineage="lineage-1", run="a")
        stale = await begin(progress, TRIGGER, run, NOW)
        done = changed(stale, "a", BatchState.COMPLETED, NOW, {})
        await store.claim(TRIGGER, ["u1"], self.batch)
        anew = Beginning(query="query-1", batch=7, lineage="lineage-1", run="b")
        latest = await begin(Progress(records_in(another)), TRIGGER, anew, NOW)

        assert not await store.settle_batches(TRIGGER, [self.batch], EntryOutcome.OK, record=done)

        assert (await found(store, "u1")).state is State.STARTED
        assert await progress.read(TRIGGER, "query-1", 7) == latest

    async def test_what_cannot_be_settled_is_not_noted(self, store: HistoryStore) -> None:
        progress = Progress(records_in(store))
        run = Beginning(query="query-1", batch=7, lineage="lineage-1", run="a")
        begun = await begin(progress, TRIGGER, run, NOW)
        done = changed(begun, "a", BatchState.COMPLETED, NOW, {})

        assert not await store.settle_batches(TRIGGER, [self.batch], EntryOutcome.OK, record=done)

        assert await progress.read(TRIGGER, "query-1", 7) == begun
        assert await store.settle_batches(TRIGGER, [self.batch], None, record=done)
        assert await progress.read(TRIGGER, "query-1", 7) == done


async def _is_dead(store: HistoryStore, uuid: str) -> bool:
    return not (await found(store, uuid)).lease_alive
