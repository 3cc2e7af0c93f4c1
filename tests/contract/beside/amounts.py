"""More than one piece of everything beside the entries."""

from datetime import UTC, datetime, timedelta

from history.beside.kept import KeepsBeside
from history.beside.progress import begin
from history.contract.amounts import MANY
from history.contract.common import TRIGGER, eventually
from history.store.control import Counts, Report
from history.store.progress import Beginning
from tests.contract.beside.joining import add, part
from tests.contract.beside.parking import parked


class AmountsBesideContract:
    """No step reads or deletes an unlimited amount; and still nothing is left out."""

    async def test_many_words_counts_and_orders_are_seen_swept_and_cleared(self, store: KeepsBeside) -> None:
        control, names = store.control, [f"trigger {n}" for n in range(MANY)]
        reports = [
            Report(consumer="c", trigger=name, counts=Counts(new=n)) for n, name in enumerate(names, 1)
        ]
        await control.beat("token-1", reports)

        overview = await control.overview()
        assert sorted(beat.report.trigger for beat in overview.beats) == sorted(names)
        assert {name: overview.statistics[name].new for name in names} == {
            name: n for n, name in enumerate(names, 1)
        }

        await control.clear(trigger=names[0])
        assert set((await control.overview()).statistics) == set(names[1:])
        await control.clear()
        assert dict((await control.overview()).statistics) == {}
        swept = 0

        async def all_swept() -> bool:
            nonlocal swept
            swept += await control.sweep(silence=timedelta(0))
            return swept >= MANY

        await eventually(all_swept)
        assert swept == MANY
        assert list((await control.overview(silence=timedelta(days=1))).beats) == []

    async def test_the_last_records_of_many_queries_are_listed(self, store: KeepsBeside) -> None:
        queries = [f"query-{n:04}" for n in range(450)]
        for query in queries:
            beginning = Beginning(query=query, batch=7, lineage="lineage", run="a", name="orders")
            await begin(store.progress, TRIGGER, beginning, datetime(2026, 1, 1, tzinfo=UTC))

        assert [record.query for record in await store.progress.latest(TRIGGER)] == queries

    async def test_many_parked_messages_are_listed_in_order_and_each_is_found(
        self, store: KeepsBeside
    ) -> None:
        await store.parking.park([parked(n) for n in range(MANY)])

        listed = await store.parking.list(limit=MANY - 10)

        assert [parked.uuid for parked in listed] == [f"u{n}" for n in range(MANY - 10)]
        assert await store.parking.get(f"{MANY - 1:04x}c0") == parked(MANY - 1)
        assert await store.parking.get("00") is None

    async def test_many_periods_of_a_join_wait(self, store: KeepsBeside) -> None:
        activations = [f"a{n}" for n in range(45)]
        for activation in activations:
            await add(store, await part(store, f"order of {activation}", "orders", activation))

        everybody = await store.joining.waiting(TRIGGER, limit=100)
        some = await store.joining.waiting(TRIGGER, limit=33)

        assert sorted(period.activation for period in everybody) == sorted(activations)
        assert [period.number for period in some] == [period.number for period in everybody][:33]
