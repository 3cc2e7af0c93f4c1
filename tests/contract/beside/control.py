"""Commands, states and statistics of a store."""

from datetime import timedelta
from typing import Any

import pytest

from history.beside import control
from history.beside.control import REPORTS, Control, report_key
from history.beside.kept import KeepsBeside
from history.contract.common import ODD_NAMES, SHORT, TRIGGER, eventually, together
from history.contract.records import records_in
from history.store.control import Counts, Order, Overview, Report, TriggerState, Verb
from history.store.records import NO_TRIGGER, Put, Record

#: No consumer was silent for so long.
NEVER = timedelta(days=1)
#: Every consumer is silent for longer, as soon as the server's clock has moved on.
AT_ONCE = timedelta(0)


def report(consumer: str = "worker-1", trigger: str = TRIGGER, **facts: Any) -> Report:
    return Report(consumer=consumer, trigger=trigger, **facts)


def counted(**counts: int) -> Report:
    return report(counts=Counts(**counts))


async def statistics(store: KeepsBeside, trigger: str = TRIGGER) -> Counts:
    return (await store.control.overview()).statistics.get(trigger, Counts())


def standing(overview: Overview, trigger: str = TRIGGER) -> dict[Verb, Order]:
    return {order.verb: order for order in overview.orders if order.trigger == trigger}


async def _swept(control: Control) -> bool:
    return await control.sweep(silence=AT_ONCE) > 0


class ControlContract:
    """Commands, states and statistics of a store."""

    @pytest.mark.parametrize("record", ["{", "", "null", '{"state": "guessed"}'])
    async def test_a_word_that_cannot_be_read_hides_no_other(self, store: KeepsBeside, record: str) -> None:
        for number in range(3):
            await store.control.beat(f"token-{number}", [report(f"worker-{number}")])
        await store.control.order(Verb.SUSPEND, [TRIGGER])
        spoilt = Record(report_key(TRIGGER, "token-1"), record.encode())
        await records_in(store).apply(NO_TRIGGER, [Put(REPORTS, spoilt)])

        overview = await store.control.overview(silence=NEVER)

        assert sorted(beat.report.consumer for beat in overview.beats) == ["worker-0", "worker-2"]
        assert list(standing(overview)) == [Verb.SUSPEND]

    async def test_what_a_consumer_says_is_seen_by_another_client(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        said = report(
            state=TriggerState.SUSPENDED,
            reason="naïve '\"\\\n\0🧾",
            by_command=True,
            elapsed=1.5,
            obeyed=7,
            busy=2,
            counts=Counts(new=3, microseconds=1_500_000, runs=4),
            away="no route to the broker \0🧾",
            away_for=0.5,
        )

        heard = await store.control.beat("token-1", [said])

        overview = await another.control.overview()
        (beat,) = overview.beats
        assert beat.report == said
        assert beat.beat_at == heard.now
        assert beat.since == heard.now - timedelta(seconds=1.5)
        assert beat.away_since == heard.now - timedelta(seconds=0.5)
        assert overview.now >= heard.now

    async def test_the_last_word_stands(self, store: KeepsBeside) -> None:
        await store.control.beat("token-1", [report(busy=1)])

        await store.control.beat("token-1", [report(state=TriggerState.DISABLED)])

        (beat,) = (await store.control.overview()).beats
        assert beat.report == report(state=TriggerState.DISABLED)

    async def test_each_consumer_and_trigger_has_a_word_of_its_own(self, store: KeepsBeside) -> None:
        mine = [report("worker-1", name) for name in (TRIGGER, "another")]
        theirs = [report("worker-2")]

        await store.control.beat("token-1", mine)
        await store.control.beat("token-2", theirs)
        await store.control.beat("token-3", [])

        said = [beat.report for beat in (await store.control.overview()).beats]
        assert sorted(said, key=str) == sorted([*mine, *theirs], key=str)

    async def test_who_leaves_is_gone_at_once_and_its_counts_stay(self, store: KeepsBeside) -> None:
        await store.control.beat("token-1", [counted(new=1)])

        await store.control.beat("token-1", [report(leaving=True, counts=Counts(new=2))])

        assert list((await store.control.overview()).beats) == []
        assert await statistics(store) == Counts(new=2)

    async def test_who_is_silent_is_left_out_and_comes_back_with_its_next_word(
        self, store: KeepsBeside
    ) -> None:
        await store.control.beat("token-1", [report()])

        async def gone() -> bool:
            return not (await store.control.overview(silence=SHORT)).beats

        await eventually(gone)
        assert len((await store.control.overview(silence=NEVER)).beats) == 1

        await store.control.beat("token-1", [report()])
        assert len((await store.control.overview(silence=SHORT)).beats) == 1

    async def test_who_is_silent_without_a_goodbye_is_lost_until_its_next_word(
        self, store: KeepsBeside, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(control, "LOST_AFTER", SHORT)
        await store.control.beat("token-1", [report("killed")])
        await store.control.beat("token-2", [report("left", leaving=True)])
        await store.control.beat("token-3", [report("guard", consumes=False)])

        async def lost() -> bool:
            return [beat.report for beat in (await store.control.overview()).lost] == [report("killed")]

        await eventually(lost)
        monkeypatch.setattr(control, "LOST_AFTER", NEVER)
        await store.control.beat("token-4", [report("killed")])
        assert list((await store.control.overview()).lost) == []

    async def test_a_beat_brings_the_orders_of_its_own_triggers(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        number = await another.control.order(Verb.SUSPEND, [TRIGGER], reason="über→注文")
        await another.control.order(Verb.SUSPEND, ["somebody else's"])

        heard = await store.control.beat("token-1", [report()])

        (order,) = heard.orders
        assert (order.trigger, order.verb, order.number, order.reason) == (
            TRIGGER,
            Verb.SUSPEND,
            number,
            "über→注文",
        )
        assert order.given_at <= heard.now

    async def test_a_beat_without_triggers_brings_none(self, store: KeepsBeside) -> None:
        await store.control.order(Verb.DISABLE, [TRIGGER])

        assert list((await store.control.beat("token-1", [])).orders) == []

    async def test_an_order_that_lasts_stands_beside_one_that_does_not(self, store: KeepsBeside) -> None:
        await store.control.order(Verb.DISABLE, [TRIGGER], reason="first")
        await store.control.order(Verb.DISABLE, [TRIGGER], reason="last")
        await store.control.order(Verb.SUSPEND, [TRIGGER])
        await store.control.order(Verb.RESUME, [TRIGGER])

        overview = await store.control.overview()
        heard = await store.control.beat("token-1", [report()])

        assert standing(overview).keys() == {Verb.DISABLE, Verb.RESUME}
        assert sorted(heard.orders, key=str) == sorted(overview.orders, key=str)
        disabled = overview.disabled(TRIGGER)
        assert disabled is not None
        assert disabled.reason == "last"
        await store.control.order(Verb.ENABLE, [TRIGGER])
        assert (await store.control.overview()).disabled(TRIGGER) is None

    @pytest.mark.parametrize("ends", [Verb.RESUME, Verb.ENABLE])
    async def test_a_hold_stands_until_a_trigger_is_resumed_or_enabled(
        self, store: KeepsBeside, another: KeepsBeside, ends: Verb
    ) -> None:
        await store.control.order(Verb.ENABLE, [TRIGGER])
        await store.control.order(Verb.HOLD, [TRIGGER], reason="it failed for good")

        hold = (await another.control.overview()).held(TRIGGER)
        await another.control.order(ends, [TRIGGER])

        assert hold is not None
        assert hold.reason == "it failed for good"
        assert (await store.control.overview()).held(TRIGGER) is None

    async def test_to_suspend_a_trigger_that_is_held_does_not_end_its_hold(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        held = await store.control.order(Verb.HOLD, [TRIGGER], reason="it failed for good")

        number = await another.control.order(Verb.SUSPEND, [TRIGGER, "another"], reason="by night")

        heard = await store.control.beat("token-1", [report(), report(trigger="another")])
        found = {order.trigger: (order.verb, order.number, order.reason) for order in heard.orders}
        assert number > held
        assert found == {
            TRIGGER: (Verb.HOLD, number, "it failed for good"),
            "another": (Verb.SUSPEND, number, "by night"),
        }

    @pytest.mark.parametrize("ends", [Verb.RESUME, Verb.ENABLE])
    async def test_a_hold_that_has_ended_does_not_come_back_with_a_suspension(
        self, store: KeepsBeside, ends: Verb
    ) -> None:
        for verb in (Verb.HOLD, ends, Verb.SUSPEND):
            await store.control.order(verb, [TRIGGER])

        assert (await store.control.overview()).held(TRIGGER) is None

    async def test_numbers_grow_with_every_order(self, store: KeepsBeside, another: KeepsBeside) -> None:
        verbs = [Verb.SUSPEND, Verb.DISABLE, Verb.RESUME, Verb.ENABLE, Verb.SUSPEND]

        numbers = [
            await client.control.order(verb, [TRIGGER]) for verb in verbs for client in (store, another)
        ]

        assert numbers == sorted(set(numbers))

    async def test_orders_that_are_given_at_once_have_numbers_of_their_own(
        self, store: KeepsBeside, *, blocking: bool
    ) -> None:
        first = await store.control.order(Verb.SUSPEND, [TRIGGER])
        orders = [store.control.order(Verb.SUSPEND, [f"trigger-{n}"]) for n in range(20)]

        numbers = await together(orders, blocking=blocking)

        assert len({first, *numbers}) == 21

    async def test_counts_of_many_consumers_add_up(
        self, store: KeepsBeside, another: KeepsBeside, *, blocking: bool
    ) -> None:
        for client in (store, another):
            await client.control.overview()
        beats = [
            client.control.beat(f"token-{n}-{index}", [counted(new=n, microseconds=10**12)])
            for n in range(1, 11)
            for index, client in enumerate((store, another))
        ]

        await together(beats, blocking=blocking)

        assert await statistics(store) == Counts(new=110, microseconds=20 * 10**12)

    async def test_a_beat_that_arrives_twice_is_counted_once(self, store: KeepsBeside) -> None:
        for reports in ([counted(new=2)], [counted(new=2)], [counted(new=5, failed=1)]) * 2:
            await store.control.beat("token-1", reports)

        # The second round begins with the first report again, as if it had been overtaken on its way.
        await store.control.beat("token-1", [counted(new=5, failed=1)])
        assert await statistics(store) == Counts(new=5, failed=1)

    async def test_a_consumer_that_starts_again_under_its_name_adds_to_what_was_counted(
        self, store: KeepsBeside
    ) -> None:
        await store.control.beat("token-1", [counted(duplicate=3)])

        await store.control.beat("token-2", [counted(duplicate=1)])

        assert await statistics(store) == Counts(duplicate=4)

    async def test_statistics_begin_again_at_zero(self, store: KeepsBeside) -> None:
        reports = [counted(new=3), report(trigger="another", counts=Counts(new=1))]
        await store.control.beat("token-1", reports)

        await store.control.clear(trigger=TRIGGER)
        await store.control.beat("token-1", [counted(new=5), reports[1]])

        assert await statistics(store) == Counts(new=2)
        assert await statistics(store, "another") == Counts(new=1)
        await store.control.clear()
        assert dict((await store.control.overview()).statistics) == {}

    async def test_who_had_a_consumer_is_known_after_it_died_and_statistics_were_cleared(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        await store.control.beat("token-1", [report(), report(trigger="another")])
        await store.control.order(Verb.DISABLE, ["of a guard"])
        assert (await another.control.overview()).had_consumer(TRIGGER)

        await store.control.clear()
        await store.control.clear(trigger=TRIGGER)
        await eventually(lambda: _swept(store.control))

        overview = await another.control.overview()
        had = [overview.had_consumer(name) for name in (TRIGGER, "another", "of a guard", "of nobody")]
        assert had == [True, True, False, False]
        assert dict(overview.statistics) == {}

    async def test_a_guard_adds_to_the_counts_and_is_no_consumer_also_after_a_sweep(
        self, store: KeepsBeside
    ) -> None:
        await store.control.beat("token-1", [report(counts=Counts(new=3), consumes=False)])

        before = await store.control.overview(silence=NEVER)
        await eventually(lambda: _swept(store.control))
        after = await store.control.overview(silence=NEVER)

        for overview in (before, after):
            assert list(overview.beats) == []
            assert overview.statistics == {TRIGGER: Counts(new=3)}
            assert not overview.had_consumer(TRIGGER)
        await store.control.beat("token-2", [report()])
        assert (await store.control.overview()).had_consumer(TRIGGER)

    async def test_a_sweep_deletes_words_and_keeps_counts_and_orders(self, store: KeepsBeside) -> None:
        await store.control.beat("token-1", [counted(new=3)])
        await store.control.order(Verb.DISABLE, [TRIGGER])
        assert await store.control.sweep(silence=NEVER) == 0
        assert len((await store.control.overview()).beats) == 1

        await eventually(lambda: _swept(store.control))

        overview = await store.control.overview(silence=NEVER)
        assert list(overview.beats) == []
        assert overview.disabled(TRIGGER) is not None
        assert await statistics(store) == Counts(new=3)
        await store.control.beat("token-2", [counted(new=1)])
        assert await statistics(store) == Counts(new=4)

    async def test_orders_states_and_statistics_of_odd_triggers(self, store: KeepsBeside) -> None:
        reports = [
            report(f"worker {name}", name, counts=Counts(new=n)) for n, name in enumerate(ODD_NAMES, 1)
        ]
        await store.control.order(Verb.SUSPEND, ODD_NAMES)

        heard = await store.control.beat("token-1", reports)

        overview = await store.control.overview()
        assert sorted(order.trigger for order in heard.orders) == sorted(ODD_NAMES)
        assert sorted((beat.report for beat in overview.beats), key=str) == sorted(reports, key=str)
        assert overview.triggers() == sorted(ODD_NAMES)
        for n, name in enumerate(ODD_NAMES, 1):
            assert await statistics(store, name) == Counts(new=n)
            await store.control.clear(trigger=name)
        assert dict((await store.control.overview()).statistics) == {}

    async def test_two_clients_of_one_server_are_at_the_same_place(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        assert store.control.address == another.control.address
