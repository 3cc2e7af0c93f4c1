"""The periods of a store's joins, and the first message of an activation."""

from datetime import timedelta

from history.beside.kept import KeepsBeside
from history.contract.common import LONG, ODD_UUIDS, SHORT, TRIGGER, claim_one, eventually, found, state_of
from history.entry import EntryOutcome
from history.store.joining import Addition, Hold, JoinTerms, Period, PeriodState
from tests.contract.beside.joining import BOTH, MINE, THEIRS, add, complete, part


class JoinPeriodContract:
    """Periods that are complete, or over, and first messages."""

    async def test_a_ready_period_is_due_when_nobody_holds_it(self, store: KeepsBeside) -> None:
        completed = await complete(store, "o", "p", hold=Hold("dies", SHORT))
        await complete(store, "o2", "p2", hold=MINE)

        got: list[Period] = []

        async def is_due() -> bool:
            got.extend(await store.joining.due(TRIGGER, THEIRS))
            return bool(got)

        await eventually(is_due)

        assert [period.number for period in got] == [completed.number]
        assert got[0].parts == completed.parts
        assert got[0].state is PeriodState.READY
        assert got[0].taken == 2
        assert list(await store.joining.due(TRIGGER, THEIRS)) == []

    async def test_a_hold_is_prolonged_and_given_back_by_its_owner_only(self, store: KeepsBeside) -> None:
        period = await complete(store, "o", "p", hold=Hold("mine", timedelta(seconds=2)))
        await store.joining.keep(TRIGGER, [period.number], MINE)

        await store.joining.keep(TRIGGER, [period.number], Hold("theirs", timedelta(0)))
        assert list(await store.joining.due(TRIGGER, THEIRS)) == []

        await store.joining.keep(TRIGGER, [period.number, 4711], Hold("mine", timedelta(0)))
        (again,) = await store.joining.due(TRIGGER, THEIRS)
        assert again.number == period.number

    async def test_a_finished_period_is_forgotten_once(self, store: KeepsBeside) -> None:
        period = await complete(store, "o", "p")

        assert await store.joining.finish(TRIGGER, period.number)
        assert not await store.joining.finish(TRIGGER, period.number)
        await store.joining.keep(TRIGGER, [period.number], Hold("mine", timedelta(0)))

        assert list(await store.joining.waiting(TRIGGER)) == []
        assert list(await store.joining.due(TRIGGER, THEIRS)) == []

    async def test_a_period_that_waits_for_parts_cannot_be_finished(self, store: KeepsBeside) -> None:
        await add(store, await part(store, "o"))
        (period,) = await store.joining.waiting(TRIGGER)

        assert not await store.joining.finish(TRIGGER, period.number)
        assert len(await store.joining.waiting(TRIGGER)) == 1

    async def test_a_part_that_waits_in_vain_is_handed_out_and_its_entry_failed(
        self, store: KeepsBeside
    ) -> None:
        order = await part(store, "o")
        await add(store, order, JoinTerms(destinations=BOTH.destinations, time_out=SHORT))
        got: list[Period] = []

        async def is_due() -> bool:
            got.extend(await store.joining.due(TRIGGER, THEIRS))
            return bool(got)

        await eventually(is_due)

        assert [period.state for period in got] == [PeriodState.EXPIRED]
        assert got[0].parts == {"orders": order}
        entry = await found(store, "o")
        assert entry.outcome is EntryOutcome.FAILED
        assert entry.fence == order.fence
        assert await store.joining.finish(TRIGGER, got[0].number)

    async def test_a_message_after_the_time_out_begins_another_period(self, store: KeepsBeside) -> None:
        short = JoinTerms(destinations=BOTH.destinations, time_out=SHORT)
        await add(store, await part(store, "o"), short)
        order, places = await part(store, "o2"), 0

        async def is_kept() -> bool:
            nonlocal places
            places += 1
            return (await add(store, order)).addition is Addition.KEPT

        await eventually(is_kept)
        last = await add(store, await part(store, "p", "payments"))

        assert places > 1, "the first message keeps its place until the time-out"
        assert last.period is not None
        assert {part.uuid for part in last.period.parts.values()} == {"o2", "p"}
        (late,) = await store.joining.due(TRIGGER, THEIRS)
        assert late.state is PeriodState.EXPIRED
        assert [part.uuid for part in late.parts.values()] == ["o"]
        assert state_of(await found(store, "o")) is EntryOutcome.FAILED

    async def test_an_entry_that_is_not_the_parts_any_more_is_not_failed(self, store: KeepsBeside) -> None:
        await add(store, await part(store, "o"), JoinTerms(destinations=BOTH.destinations, time_out=SHORT))
        await store.forget(TRIGGER, "o")
        another = await claim_one(store, "o", "another")
        await store.complete(TRIGGER, "o", another.fence)

        async def is_due() -> bool:
            return bool(await store.joining.due(TRIGGER, THEIRS))

        await eventually(is_due)

        assert (await found(store, "o")).outcome is EntryOutcome.OK

    async def test_without_a_time_out_a_part_waits_for_ever(self, store: KeepsBeside) -> None:
        for_ever = JoinTerms(destinations=BOTH.destinations, time_out=None)
        await add(store, await part(store, "o"), for_ever)

        assert list(await store.joining.due(TRIGGER, THEIRS)) == []
        assert (await add(store, await part(store, "p", "payments"), for_ever)).period is not None

    async def test_no_more_than_the_limit_is_handed_out(self, store: KeepsBeside) -> None:
        numbers = [
            (await complete(store, f"o{n}", f"p{n}", activation=f"{n}", hold=Hold("x", timedelta(0)))).number
            for n in range(5)
        ]

        first = await store.joining.due(TRIGGER, THEIRS, limit=3)
        rest = await store.joining.due(TRIGGER, THEIRS, limit=3)

        assert len(first) == 3
        assert sorted(period.number for period in [*first, *rest]) == numbers
        assert len(await store.joining.waiting(TRIGGER, limit=4)) == 4

    async def test_the_first_of_an_activation_stays_the_first(self, store: KeepsBeside) -> None:
        first = store.joining.first

        assert await first(TRIGGER, "a", "u1", time_out=LONG)
        assert not await first(TRIGGER, "a", "u2", time_out=LONG)
        assert await first(TRIGGER, "a", "u1", time_out=LONG), "it stays the first, however often it calls"
        assert await first(TRIGGER, "b", "u2", time_out=None)
        assert not await first(TRIGGER, "b", "u1", time_out=None)
        assert await first("another", "a", "u2", time_out=LONG)

    async def test_after_the_time_out_another_one_is_the_first(self, store: KeepsBeside) -> None:
        first = store.joining.first
        assert await first(TRIGGER, "a", "u1", time_out=SHORT)
        assert await first(TRIGGER, "b", "u1", time_out=None)

        async def is_first() -> bool:
            return await first(TRIGGER, "a", "u2", time_out=LONG)

        await eventually(is_first)

        assert not await first(TRIGGER, "a", "u1", time_out=LONG)
        assert not await first(TRIGGER, "b", "u2", time_out=LONG)

    async def test_the_first_that_asks_again_has_no_more_time(self, store: KeepsBeside) -> None:
        first = store.joining.first
        assert await first(TRIGGER, "a", "u1", time_out=SHORT)
        assert await first(TRIGGER, "a", "u1", time_out=LONG)

        async def another_is_first() -> bool:
            return await first(TRIGGER, "a", "u2", time_out=LONG)

        await eventually(another_is_first)

    async def test_the_first_of_odd_activations(self, store: KeepsBeside) -> None:
        for activation in ODD_UUIDS:
            assert await store.joining.first(TRIGGER, activation, "u1", time_out=LONG)
        for activation in ODD_UUIDS:
            assert not await store.joining.first(TRIGGER, activation, "u2", time_out=LONG)
