"""Calls on joins that are overtaken between their read and their step."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from history.beside.joining import PERIODS, Joining, number_key
from history.beside.kept import KeepsBeside
from history.contract.common import LONG, SHORT, TRIGGER, eventually, found, state_of
from history.contract.records import records_in
from history.entry import EntryOutcome, State, digest
from history.store.joining import Added, Addition, Hold, JoinTerms, Period, PeriodState
from history.store.records import Change, Delete, Get, Now, Put, Record, Records
from tests.contract.beside.joining import BOTH, MINE, THEIRS, add, complete, made, part

#: Something that happens in the middle of a call.
Event = Callable[[], Awaitable[object]]


class DiesError(Exception):
    """Ends a call, as the death of its process does."""


class OvertakenRecords:
    """The records of a store; something happens before or after the next step that changes any."""

    def __init__(self, records: Records, *, before: Event | None = None, after: Event | None = None) -> None:
        self._records, self._before, self._after = records, before, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def apply(
        self, trigger: str, changes: Sequence[Change], *, each: bool = False
    ) -> Sequence[Record | None]:
        """Make changes; see :class:`~history.store.records.Records`."""
        before, after = self._before, self._after
        if all(isinstance(change, Get | Now) for change in changes):
            before = after = None
        else:
            self._before = self._after = None
        if before is not None:
            await before()
        answers = await self._records.apply(trigger, changes, each=each)
        if after is not None:
            await after()
        return answers


def overtaken(store: KeepsBeside, **events: Event) -> Joining:
    records: Any = OvertakenRecords(records_in(store), **events)
    return Joining(records, lookup=store.lookup)


async def dies() -> None:
    raise DiesError


def uuids_of(period: Period) -> set[str]:
    return {joined.uuid for joined in period.parts.values()}


async def waiting(store: KeepsBeside) -> dict[frozenset[str], PeriodState]:
    """Return the states of the unfinished periods, by the uuids of their messages."""
    return {frozenset(uuids_of(period)): period.state for period in await store.joining.waiting(TRIGGER)}


class JoinRaceContract:
    """No message is lost, and none is in two periods."""

    async def test_of_two_last_parts_the_slower_begins_another_period(self, store: KeepsBeside) -> None:
        await add(store, await part(store, "o"))
        slow, quick = await part(store, "p", "payments"), await part(store, "p2", "payments")
        joining = overtaken(store, before=lambda: add(store, quick))

        added = await joining.add(TRIGGER, slow, BOTH, MINE)

        assert added == Added(Addition.KEPT)
        assert await waiting(store) == {
            frozenset({"o", "p2"}): PeriodState.READY,
            frozenset({"p"}): PeriodState.OPEN,
        }

    async def test_two_first_parts_begin_one_period(self, store: KeepsBeside) -> None:
        slow, quick = await part(store, "o"), await part(store, "p", "payments")
        joining = overtaken(store, before=lambda: add(store, quick))

        added = await joining.add(TRIGGER, slow, BOTH, MINE)

        assert added.period is not None
        assert added.period.parts == {"orders": slow, "payments": quick}
        assert await waiting(store) == {frozenset({"o", "p"}): PeriodState.READY}

    async def test_a_part_whose_place_is_taken_meanwhile_is_not_added(self, store: KeepsBeside) -> None:
        slow, quick = await part(store, "o"), await part(store, "o2")
        joining = overtaken(store, before=lambda: add(store, quick))

        assert await joining.add(TRIGGER, slow, BOTH, MINE) == Added(Addition.TAKEN)

        assert state_of(await found(store, "o")) is State.STARTED
        assert await waiting(store) == {frozenset({"o2"}): PeriodState.OPEN}

    async def test_a_part_that_comes_while_its_period_ends_begins_another(self, store: KeepsBeside) -> None:
        short = JoinTerms(destinations=BOTH.destinations, time_out=timedelta(seconds=1))
        payment = await part(store, "p", "payments")
        await add(store, await part(store, "o"), short)
        ended: list[Period] = []

        async def is_ended() -> bool:
            ended.extend(await store.joining.due(TRIGGER, THEIRS))
            return bool(ended)

        joining = overtaken(store, before=lambda: eventually(is_ended))
        added = await joining.add(TRIGGER, payment, BOTH, MINE)

        assert added == Added(Addition.KEPT)
        assert [uuids_of(period) for period in ended] == [{"o"}]
        assert await waiting(store) == {
            frozenset({"o"}): PeriodState.EXPIRED,
            frozenset({"p"}): PeriodState.OPEN,
        }
        assert state_of(await found(store, "o")) is EntryOutcome.FAILED
        assert state_of(await found(store, "p")) is EntryOutcome.OK

    @pytest.mark.parametrize("more", [(), ("notes",)], ids=["last", "middle"])
    async def test_a_step_for_a_former_period_does_not_change_the_next(
        self, store: KeepsBeside, more: Sequence[str]
    ) -> None:
        """The next open period of an activation has the same key and version as the former one."""
        terms = JoinTerms(destinations=(*BOTH.destinations, *more), time_out=LONG)
        await add(store, await part(store, "o"), terms)
        slow, following = await part(store, "p2", "payments"), await part(store, "o2")
        others = [await part(store, uuid, uuid) for uuid in ("payments", *more)]
        joined: list[Added] = []

        async def overtake() -> None:
            joined.extend([await add(store, other, terms) for other in others])
            assert joined[-1].period is not None
            await store.joining.finish(TRIGGER, joined[-1].period.number)
            await add(store, following, terms)

        await overtaken(store, before=overtake).add(TRIGGER, slow, terms, MINE)

        state = PeriodState.OPEN if more else PeriodState.READY
        assert await waiting(store) == {frozenset({"o2", "p2"}): state}

    async def test_a_part_that_is_replaced_meanwhile_is_joined_as_it_is_then(
        self, store: KeepsBeside
    ) -> None:
        await add(store, await part(store, "o"))
        await store.forget(TRIGGER, "o")
        again, payment = await part(store, "o"), await part(store, "p", "payments")
        joining = overtaken(store, before=lambda: add(store, again))

        added = await joining.add(TRIGGER, payment, BOTH, MINE)

        assert added.period is not None
        assert added.period.parts == {"orders": again, "payments": payment}

    @pytest.mark.parametrize("value", [b"{}", b"garbage", b'{"number": "x"}'])
    async def test_a_spoilt_period_refuses_its_own_messages_and_no_others(
        self, store: KeepsBeside, value: bytes
    ) -> None:
        key = digest("a")
        await add(store, await part(store, "o"))
        await records_in(store).apply(TRIGGER, [Put(PERIODS, Record(key, value, 1))])
        payment = await part(store, "p", "payments")

        assert await add(store, payment) == Added(Addition.SPOILT)
        assert state_of(await found(store, "p")) is State.STARTED
        await complete(store, "o2", "p2", activation="b")

        await records_in(store).apply(TRIGGER, [Delete(PERIODS, key)])
        assert await add(store, payment) == Added(Addition.KEPT)

    async def test_spoilt_periods_do_not_hide_one_that_is_due_after_them(self, store: KeepsBeside) -> None:
        over = Hold("mine", timedelta(0))
        first = await complete(store, "o", "p", hold=over)
        second = await complete(store, "o2", "p2", activation="b", hold=over)
        for period in (first, second):
            spoilt = Record(number_key(period.number), b"spoilt", 2)
            await records_in(store).apply(TRIGGER, [Put(PERIODS, spoilt)])
        last = await complete(store, "o3", "p3", activation="c", hold=over)

        (due,) = await store.joining.due(TRIGGER, THEIRS, limit=1)

        assert due.number == last.number

    async def test_a_worker_that_dies_before_its_step_leaves_everything(self, store: KeepsBeside) -> None:
        order = await part(store, "o")

        with pytest.raises(DiesError):
            await overtaken(store, before=dies).add(TRIGGER, order, BOTH, MINE)

        assert state_of(await found(store, "o")) is State.STARTED
        assert await waiting(store) == {}
        assert await add(store, order) == Added(Addition.KEPT)

    async def test_a_step_whose_answer_was_lost_is_not_made_twice(self, store: KeepsBeside) -> None:
        await add(store, await part(store, "o"))
        payment = await part(store, "p", "payments")

        with pytest.raises(DiesError):
            await overtaken(store, after=dies).add(TRIGGER, payment, BOTH, Hold("dies", timedelta(0)))

        assert await add(store, payment) == Added(Addition.KEPT)
        assert await waiting(store) == {frozenset({"o", "p"}): PeriodState.READY}
        (period,) = await store.joining.due(TRIGGER, THEIRS)
        assert uuids_of(period) == {"o", "p"}

    async def test_a_worker_that_loses_its_entry_before_its_step_adds_nothing(
        self, store: KeepsBeside
    ) -> None:
        order = await part(store, "o")
        joining = overtaken(store, before=lambda: store.take_over(TRIGGER, "o", "another", None, order.fence))

        assert await joining.add(TRIGGER, order, BOTH, MINE) == Added(Addition.STALE)

        assert await waiting(store) == {}

    async def test_a_late_worker_does_not_take_a_place_for_its_own(self, store: KeepsBeside) -> None:
        await add(store, await part(store, "o"))
        late = await part(store, "o2")
        await store.take_over(TRIGGER, "o2", "another", None, late.fence)

        assert await add(store, late) == Added(Addition.STALE)
        assert await add(store, made("never", 4711)) == Added(Addition.STALE)

    async def test_a_period_is_not_kept_by_an_owner_that_loses_it_meanwhile(self, store: KeepsBeside) -> None:
        over = Hold("mine", timedelta(0))
        period = await complete(store, "o", "p", hold=over)
        joining = overtaken(store, before=lambda: store.joining.due(TRIGGER, THEIRS))

        await joining.keep(TRIGGER, [period.number], over)

        assert list(await store.joining.due(TRIGGER, MINE)) == []
        await store.joining.keep(TRIGGER, [period.number], Hold("theirs", timedelta(0)))
        (again,) = await store.joining.due(TRIGGER, MINE)
        assert again.taken == 3

    async def test_a_period_that_is_kept_meanwhile_is_finished(self, store: KeepsBeside) -> None:
        period = await complete(store, "o", "p")
        joining = overtaken(store, before=lambda: store.joining.keep(TRIGGER, [period.number], MINE))

        assert await joining.finish(TRIGGER, period.number)

        assert await waiting(store) == {}

    async def test_a_period_that_ends_twice_at_once_is_handed_out_once(self, store: KeepsBeside) -> None:
        await add(store, await part(store, "o"), JoinTerms(destinations=BOTH.destinations, time_out=SHORT))
        quick: list[Period] = []

        async def overtake() -> None:
            quick.extend(await store.joining.due(TRIGGER, THEIRS))

        slow: list[Period] = []

        async def is_due() -> bool:
            slow.extend(await overtaken(store, before=overtake).due(TRIGGER, MINE))
            return bool(quick)

        await eventually(is_due)

        assert slow == []
        assert [uuids_of(period) for period in quick] == [{"o"}]

    async def test_two_threads_of_an_owner_do_not_get_the_same_period(self, store: KeepsBeside) -> None:
        await complete(store, "o", "p", hold=Hold("dies", timedelta(0)))
        quick: list[Period] = []

        async def overtake() -> None:
            quick.extend(await store.joining.due(TRIGGER, MINE))

        slow = await overtaken(store, before=overtake).due(TRIGGER, MINE)

        assert list(slow) == []
        assert [uuids_of(period) for period in quick] == [{"o", "p"}]
