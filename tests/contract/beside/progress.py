"""The records of batches."""

from datetime import UTC, datetime, timedelta

import pytest

from history.beside.kept import KeepsBeside
from history.beside.progress import BATCHES, batch_key, begin, change
from history.contract.common import TRIGGER
from history.contract.records import records_in
from history.store.progress import KEPT_BATCHES, BatchState, Beginning, StaleRunError
from history.store.records import Put, Record

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _run(run: str, batch: int = 7, query: str = "query-1") -> Beginning:
    return Beginning(query=query, batch=batch, lineage="lineage-1", run=run, name="orders")


class ProgressContract:
    """The records of batches."""

    async def test_a_batch_is_begun_entered_and_ended(self, store: KeepsBeside, another: KeepsBeside) -> None:
        record = await begin(store.progress, TRIGGER, _run("a"), NOW)
        record = await change(store.progress, TRIGGER, record, BatchState.RUNNING, NOW)
        record = await change(store.progress, TRIGGER, record, BatchState.COMPLETED, NOW, {"rows": 3})

        assert await another.progress.read(TRIGGER, "query-1", 7) == record
        assert (record.state, record.counts, record.attempt) == (BatchState.COMPLETED, {"rows": 3}, 1)
        assert await store.progress.read(TRIGGER, "query-1", 8) is None
        assert await store.progress.read("another", "query-1", 7) is None

    async def test_every_step_may_be_sent_twice(self, store: KeepsBeside) -> None:
        record = await begin(store.progress, TRIGGER, _run("a"), NOW)

        assert await begin(store.progress, TRIGGER, _run("a"), NOW) == record
        assert await store.progress.write(TRIGGER, record)
        done = await change(store.progress, TRIGGER, record, BatchState.COMPLETED, NOW)
        assert await change(store.progress, TRIGGER, record, BatchState.COMPLETED, NOW) == done

    async def test_a_run_that_is_begun_again_knows_who_never_entered(self, store: KeepsBeside) -> None:
        await begin(store.progress, TRIGGER, _run("a"), NOW)
        entered = await begin(store.progress, TRIGGER, _run("b"), NOW)
        await change(store.progress, TRIGGER, entered, BatchState.RUNNING, NOW)

        record = await begin(store.progress, TRIGGER, _run("c"), NOW)

        assert (record.run, record.attempt, record.unentered) == ("c", 3, ("a",))

    async def test_a_stale_run_may_not_go_on(self, store: KeepsBeside, another: KeepsBeside) -> None:
        stale = await begin(store.progress, TRIGGER, _run("a"), NOW)
        await begin(another.progress, TRIGGER, _run("b"), NOW)

        with pytest.raises(StaleRunError, match="was replaced by run b"):
            await change(store.progress, TRIGGER, stale, BatchState.RUNNING, NOW)

        assert not await store.progress.write(TRIGGER, stale)

    async def test_a_record_of_a_batch_that_cannot_be_read_hides_no_other(self, store: KeepsBeside) -> None:
        for query in ("query-1", "query-2"):
            for batch in range(3):
                await begin(store.progress, TRIGGER, _run("a", batch, query), NOW)
        spoilt = Record(batch_key("query-1", 2), b"{")
        await records_in(store).apply(TRIGGER, [Put(BATCHES, spoilt)])

        latest = await store.progress.latest(TRIGGER)
        batches = await store.progress.batches(TRIGGER, "query-1")

        assert [record.query for record in latest] == ["query-2"]
        assert [record.batch for record in batches] == [1, 0]
        with pytest.raises(ValueError, match="JSON"):
            await store.progress.read(TRIGGER, "query-1", 2)

    async def test_the_last_record_of_each_query_is_listed(self, store: KeepsBeside) -> None:
        for batch in (1, 3, 2):
            await begin(store.progress, TRIGGER, _run("a", batch), NOW.replace(minute=4 - batch))
        await begin(store.progress, TRIGGER, _run("a", 9, "query-2"), NOW)

        assert [(record.query, record.batch) for record in await store.progress.latest(TRIGGER)][1:] == [
            ("query-2", 9)
        ]
        assert [record.batch for record in await store.progress.batches(TRIGGER, "query-1")] == [3, 2, 1]
        assert [record.batch for record in await store.progress.batches(TRIGGER, "query-1", limit=1)] == [3]
        assert await store.progress.latest("another") == []

    async def test_what_a_query_did_long_ago_is_forgotten(self, store: KeepsBeside) -> None:
        await begin(store.progress, TRIGGER, _run("a", 1), NOW)
        await begin(store.progress, TRIGGER, _run("a", 2), NOW)

        await begin(store.progress, TRIGGER, _run("a", KEPT_BATCHES + 1), NOW)

        assert [record.batch for record in await store.progress.batches(TRIGGER, "query-1")] == [
            KEPT_BATCHES + 1,
            2,
        ]

    async def test_what_checkpoints_that_were_reset_left_behind_is_forgotten(
        self, store: KeepsBeside
    ) -> None:
        for batch in (3 * KEPT_BATCHES, 3 * KEPT_BATCHES + 1):
            await begin(store.progress, TRIGGER, _run("a", batch), NOW)
        await begin(store.progress, TRIGGER, _run("a", 2 * KEPT_BATCHES + 1), NOW)

        await begin(store.progress, TRIGGER, _run("a", KEPT_BATCHES + 1), NOW)

        kept = await store.progress.batches(TRIGGER, "query-1")
        assert [record.batch for record in kept] == [2 * KEPT_BATCHES + 1, KEPT_BATCHES + 1]

    async def test_records_that_have_not_changed_for_long_are_forgotten(self, store: KeepsBeside) -> None:
        now, far = datetime.now(UTC), timedelta(hours=1)
        for batch in range(3):
            await begin(store.progress, TRIGGER, _run("a", batch), NOW)
            await begin(store.progress, "another", _run("a", batch), NOW)

        assert await store.progress.purge_records(TRIGGER, now - far) == 0
        assert len(await store.progress.batches(TRIGGER, "query-1")) == 3
        assert await store.progress.purge_records(TRIGGER, now + far) == 3

        assert await store.progress.batches(TRIGGER, "query-1") == []
        assert await store.progress.latest(TRIGGER) == []
        assert len(await store.progress.batches("another", "query-1")) == 3

    async def test_a_batch_is_unfinished_from_its_function_on_until_it_is_completed(
        self, store: KeepsBeside
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
