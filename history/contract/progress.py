"""Adopting entries into a batch, and the records of batches."""

from datetime import UTC, datetime

import pytest

from history.contract.common import TRIGGER, claim_one, found, state_of
from history.entry import EntryOutcome, State
from history.store import BatchOwner, HistoryStore
from history.store.progress import (
    KEPT_BATCHES,
    RECORDS_KEPT_FOR,
    BatchState,
    Beginning,
    StaleRunError,
    begin,
    change,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _run(run: str, batch: int = 7, query: str = "query-1") -> Beginning:
    return Beginning(query=query, batch=batch, lineage="lineage-1", run=run, name="orders")


class AdoptionContract:
    """Entries that another owner has started can become a batch's own."""

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


class ProgressContract:
    """The records of batches."""

    async def test_a_batch_is_begun_entered_and_ended(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        record = await begin(store.progress, TRIGGER, _run("a"), NOW)
        record = await change(store.progress, TRIGGER, record, BatchState.RUNNING, NOW)
        record = await change(store.progress, TRIGGER, record, BatchState.COMPLETED, NOW, {"rows": 3})

        kept = await another.progress.read(TRIGGER, "query-1", 7)
        assert kept == record
        assert (record.state, record.counts, record.attempt) == (BatchState.COMPLETED, {"rows": 3}, 1)
        assert await store.progress.read(TRIGGER, "query-1", 8) is None
        assert await store.progress.read("another", "query-1", 7) is None

    async def test_every_step_may_be_sent_twice(self, store: HistoryStore) -> None:
        record = await begin(store.progress, TRIGGER, _run("a"), NOW)

        assert await begin(store.progress, TRIGGER, _run("a"), NOW) == record
        assert await store.progress.write(TRIGGER, record)
        done = await change(store.progress, TRIGGER, record, BatchState.COMPLETED, NOW)
        assert await change(store.progress, TRIGGER, record, BatchState.COMPLETED, NOW) == done

    async def test_a_run_that_is_begun_again_knows_who_never_entered(self, store: HistoryStore) -> None:
        await begin(store.progress, TRIGGER, _run("a"), NOW)
        entered = await begin(store.progress, TRIGGER, _run("b"), NOW)
        await change(store.progress, TRIGGER, entered, BatchState.RUNNING, NOW)

        record = await begin(store.progress, TRIGGER, _run("c"), NOW)

        assert (record.run, record.attempt, record.unentered) == ("c", 3, ("a",))

    async def test_a_stale_run_may_not_go_on(self, store: HistoryStore, another: HistoryStore) -> None:
        stale = await begin(store.progress, TRIGGER, _run("a"), NOW)
        await begin(another.progress, TRIGGER, _run("b"), NOW)

        with pytest.raises(StaleRunError, match="was replaced by run b"):
            await change(store.progress, TRIGGER, stale, BatchState.RUNNING, NOW)

        assert not await store.progress.write(TRIGGER, stale)

    async def spoil_batch(
        self,
        store: HistoryStore,  # noqa: ARG002
        query: str,  # noqa: ARG002
        batch: int,  # noqa: ARG002
        record: str,  # noqa: ARG002
    ) -> bool:
        """Overwrite the record of a batch with something else; False if that is impossible.

        A subclass overrides this.
        """
        return False

    async def test_a_record_of_a_batch_that_cannot_be_read_hides_no_other(self, store: HistoryStore) -> None:
        for query in ("query-1", "query-2"):
            for batch in range(3):
                await begin(store.progress, TRIGGER, _run("a", batch, query), NOW)
        if not await self.spoil_batch(store, "query-1", 2, "{"):
            pytest.skip("this store has no records that could be spoilt")

        latest = await store.progress.latest(TRIGGER)
        batches = await store.progress.batches(TRIGGER, "query-1")

        assert [record.query for record in latest] == ["query-2"]
        assert [record.batch for record in batches] == [1, 0]
        with pytest.raises(ValueError, match="JSON"):
            await store.progress.read(TRIGGER, "query-1", 2)

    async def test_the_last_record_of_each_query_is_listed(self, store: HistoryStore) -> None:
        for batch in (1, 3, 2):
            await begin(store.progress, TRIGGER, _run("a", batch), NOW.replace(minute=4 - batch))
        await begin(store.progress, TRIGGER, _run("a", 9, "query-2"), NOW)

        assert [(record.query, record.batch) for record in await store.progress.latest(TRIGGER)][1:] == [
            ("query-2", 9)
        ]
        assert [record.batch for record in await store.progress.batches(TRIGGER, "query-1")] == [3, 2, 1]
        assert [record.batch for record in await store.progress.batches(TRIGGER, "query-1", limit=1)] == [3]
        assert await store.progress.latest("another") == []

    async def test_what_a_query_did_long_ago_is_forgotten(self, store: HistoryStore) -> None:
        await begin(store.progress, TRIGGER, _run("a", 1), NOW)
        await begin(store.progress, TRIGGER, _run("a", 2), NOW)

        await begin(store.progress, TRIGGER, _run("a", KEPT_BATCHES + 1), NOW)

        assert [record.batch for record in await store.progress.batches(TRIGGER, "query-1")] == [
            KEPT_BATCHES + 1,
            2,
        ]

    async def test_what_checkpoints_that_were_reset_left_behind_is_forgotten(
        self, store: HistoryStore
    ) -> None:
        for batch in (3 * KEPT_BATCHES, 3 * KEPT_BATCHES + 1):
            await begin(store.progress, TRIGGER, _run("a", batch), NOW)
        await begin(store.progress, TRIGGER, _run("a", 2 * KEPT_BATCHES + 1), NOW)

        await begin(store.progress, TRIGGER, _run("a", KEPT_BATCHES + 1), NOW)

        kept = await store.progress.batches(TRIGGER, "query-1")
        assert [record.batch for record in kept] == [2 * KEPT_BATCHES + 1, KEPT_BATCHES + 1]

    async def test_records_that_have_not_changed_for_long_are_forgotten(self, store: HistoryStore) -> None:
        old, now = NOW, NOW + RECORDS_KEPT_FOR
        for batch in range(3):
            await begin(store.progress, TRIGGER, _run("a", batch), old)
            await begin(store.progress, "another", _run("a", batch), old)
        await begin(store.progress, TRIGGER, _run("a", 3), now)

        await store.progress.purge_records(TRIGGER, now)
        await store.progress.purge_records(TRIGGER, now)

        kept = [record.batch for record in await store.progress.batches(TRIGGER, "query-1")]
        assert kept in ([3], [3, 2, 1, 0]), "or they expire by themselves"
        assert kept[0] == 3
        assert len(await store.progress.batches("another", "query-1")) == 3

    async def test_a_batch_is_unfinished_from_its_function_on_until_it_is_completed(
        self, store: HistoryStore
    ) -> None:
        async def next_run(run: str, state: BatchState | None, lineage: str = "lineage-1") -> bool | None:
            anew = Beginning(query="query-1", batch=7, lineage=lineage, run=run)
            record = await begin(store.progress, TRIGGER, anew, NOW)
            if state is not None:
                await change(store.progress, TRIGGER, record, state, NOW)
            return record.unfinished

        assert not await next_run("a", None)
        assert not await next_run("b", BatchState.RUNNING)
        assert await next_run("c", None)
        assert await next_run("d", BatchState.RELEASED)
        assert await next_run("e", BatchState.COMPLETED)
        assert not await next_run("f", None)
        assert not await next_run("g", BatchState.RUNNING)
        assert not await next_run("h", None, "another checkpoint")
