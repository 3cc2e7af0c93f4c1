"""The charts; a store without records passes."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from history.beside.charts import CHARTS, HOURS, Charts, ChartStep
from history.beside.kept import KeepsBeside
from history.contract.common import TRIGGER
from history.store import Counts
from history.store.records import Put, Record
from tests.fixtures.beside import kept_in

_NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def _step(minute: float, new: int, parked: int | None = 0) -> ChartStep:
    counts = Counts(new=new, duplicate=1, failed=2, runs=new, microseconds=2**40)
    return ChartStep(_NOON + timedelta(minutes=minute), counts, parked)


def _making(step: ChartStep) -> Callable[[], Awaitable[ChartStep]]:
    async def make() -> ChartStep:
        return step

    return make


async def _add(charts: Charts, step: ChartStep) -> bool:
    return await charts.add(TRIGGER, step.at, _making(step))


async def _never() -> ChartStep:
    raise AssertionError("it was made")


class ChartContract:
    """Every client reads the steps of each minute, in their order."""

    async def test_steps_are_read_by_another_client_in_their_order(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        mine, yours = kept_in(store).charts, kept_in(another).charts
        steps = [_step(0, 1), _step(1, 5, None), _step(59.5, 9), _step(61, 12, 3)]

        added = [await _add(charts, step) for charts, step in zip((mine, yours) * 2, steps, strict=True)]

        assert added == [True] * 4
        assert await mine.steps(TRIGGER) == await yours.steps(TRIGGER) == steps
        assert await mine.steps(f"{TRIGGER}-2") == []

    async def test_a_minute_has_one_step_and_the_second_is_not_even_made(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        mine, yours = kept_in(store).charts, kept_in(another).charts
        await _add(mine, _step(1, 5))

        assert not await yours.add(TRIGGER, _step(1.9, 6).at, _never)
        assert not await yours.add(TRIGGER, _step(0.5, 6).at, _never)

        assert await mine.steps(TRIGGER) == [_step(1, 5)]

    async def test_of_two_steps_at_the_same_time_one_is_added(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        mine, yours = kept_in(store).charts, kept_in(another).charts
        await _add(mine, _step(0, 1))

        async def make() -> ChartStep:
            assert await _add(yours, _step(1, 5))
            return _step(1, 6)

        assert not await mine.add(TRIGGER, _step(1, 6).at, make)
        assert await mine.steps(TRIGGER) == [_step(0, 1), _step(1, 5)]

    async def test_steps_that_are_older_than_a_day_are_deleted(self, store: KeepsBeside) -> None:
        charts = kept_in(store).charts
        for hour in range(HOURS + 6):
            await _add(charts, _step(60 * hour, hour))

        records = kept_in(store).records
        assert len(await records.page(TRIGGER, CHARTS)) == HOURS + 1
        assert [step.counts.new for step in await charts.steps(TRIGGER)] == list(range(5, HOURS + 6))
        assert [step.counts.new for step in await charts.steps(TRIGGER, hours=1)] == [HOURS + 4, HOURS + 5]

    async def test_a_spoilt_record_is_skipped_and_then_replaced(self, store: KeepsBeside) -> None:
        charts, records = kept_in(store).charts, kept_in(store).records
        await _add(charts, _step(-60, 1))
        await _add(charts, _step(0, 2))
        (held, _) = await records.page(TRIGGER, CHARTS)
        await records.apply(TRIGGER, [Put(CHARTS, Record(held.key, b'{"names":["new"],"steps":[[1]]}', 7))])

        assert await charts.steps(TRIGGER) == [_step(-60, 1)]
        assert await _add(charts, _step(1, 3))
        assert await charts.steps(TRIGGER) == [_step(-60, 1), _step(1, 3)]
