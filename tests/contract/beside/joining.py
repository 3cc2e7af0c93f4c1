"""The joins of a store."""

from itertools import pairwise
from typing import Any

from history.beside.kept import KeepsBeside
from history.contract.common import LONG, ODD_NAMES, ODD_UUIDS, TRIGGER, claim_one, found, state_of
from history.entry import EntryOutcome, Fence, State
from history.message import Message, Uuid
from history.store.joining import Added, Addition, Hold, JoinPart, JoinTerms, Period, PeriodState

#: The destinations that the checks join, and how long a part waits.
BOTH = JoinTerms(destinations=("orders", "payments"), time_out=LONG)

#: The first worker, and another worker that wants the first one's periods.
MINE, THEIRS = Hold("mine", LONG), Hold("theirs", LONG)


async def part(store: KeepsBeside, uuid: str, destination: str = "orders", activation: str = "a") -> JoinPart:
    """Claim a message, so that it can be added."""
    fence = (await claim_one(store, uuid, f"{uuid} on {destination}")).fence
    return made(uuid, fence, destination, activation)


def made(uuid: str, fence: int, destination: str = "orders", activation: str = "a") -> JoinPart:
    message = Message(body={"of": uuid}, uuid=Uuid(uuid), destination=destination)
    return JoinPart(activation=activation, destination=destination, fence=Fence(fence), message=message)


async def add(store: KeepsBeside, joined: JoinPart, terms: JoinTerms = BOTH, hold: Hold = MINE) -> Added:
    return await store.joining.add(TRIGGER, joined, terms, hold)


async def complete(store: KeepsBeside, *uuids: str, activation: str = "a", **more: Any) -> Period:
    """Add a part for each destination, and return their period."""
    added = Added(Addition.STALE)
    for uuid, destination in zip(uuids, BOTH.destinations, strict=True):
        added = await add(store, await part(store, uuid, destination, activation), **more)
    assert added.period is not None
    return added.period


class JoiningContract:
    """The joins of a store."""

    async def test_the_last_part_of_a_join_gets_all_of_them(self, store: KeepsBeside) -> None:
        order, payment = await part(store, "o"), await part(store, "p", "payments")

        first = await add(store, order)
        last = await add(store, payment)

        assert first == Added(Addition.KEPT)
        assert last.addition is Addition.KEPT
        assert last.period is not None
        assert last.period.state is PeriodState.READY
        assert last.period.activation == "a"
        assert last.period.parts == {"orders": order, "payments": payment}
        assert last.period.taken == 1

    async def test_a_part_is_added_and_its_entry_completed_in_one_step(self, store: KeepsBeside) -> None:
        order = await part(store, "o")

        await add(store, order)

        assert state_of(await found(store, "o")) is EntryOutcome.OK
        assert (await found(store, "o")).fence == order.fence

    async def test_other_activations_and_triggers_wait_for_themselves(self, store: KeepsBeside) -> None:
        await add(store, await part(store, "o"))
        other = await add(store, await part(store, "p", "payments", "b"))
        await store.claim("another", ["p"], "me")
        elsewhere = await store.joining.add("another", await part(store, "q", "payments"), BOTH, MINE)

        assert other == Added(Addition.KEPT)
        assert elsewhere.period is None
        assert [period.activation for period in await store.joining.waiting(TRIGGER)] == ["a", "b"]
        assert list(await store.joining.waiting("nobody's")) == []

    async def test_adding_twice_is_harmless(self, store: KeepsBeside) -> None:
        order = await part(store, "o")
        payment = await part(store, "p", "payments")

        assert [await add(store, order), await add(store, order)] == [Added(Addition.KEPT)] * 2
        assert (await add(store, payment)).period is not None
        assert await add(store, payment) == Added(Addition.KEPT)

        (period,) = await store.joining.waiting(TRIGGER)
        assert set(period.parts) == {"orders", "payments"}

    async def test_a_second_message_of_a_destination_finds_its_place_taken(self, store: KeepsBeside) -> None:
        await add(store, await part(store, "o"))

        second = await add(store, await part(store, "o2"))

        assert second == Added(Addition.TAKEN)
        assert state_of(await found(store, "o2")) is State.STARTED
        (period,) = await store.joining.waiting(TRIGGER)
        assert [part.uuid for part in period.parts.values()] == ["o"]

    async def test_a_complete_join_leaves_room_for_the_next_one(self, store: KeepsBeside) -> None:
        ready = await complete(store, "o", "p")

        again = await add(store, await part(store, "o2"))
        late = await add(store, await part(store, "p2", "payments"))

        assert again == Added(Addition.KEPT)
        assert late.period is not None
        assert late.period.number > ready.number
        assert {part.uuid for part in late.period.parts.values()} == {"o2", "p2"}

    async def test_a_worker_that_has_lost_its_fence_adds_nothing(self, store: KeepsBeside) -> None:
        late = await part(store, "o")
        taken = await store.take_over(TRIGGER, "o", "another", None, late.fence)
        assert taken is not None

        assert await add(store, late) == Added(Addition.STALE)
        assert list(await store.joining.waiting(TRIGGER)) == []
        assert await add(store, made("o", taken.fence)) == Added(Addition.KEPT)
        assert await add(store, late) == Added(Addition.STALE)

    async def test_what_was_joined_and_finished_is_not_added_again(self, store: KeepsBeside) -> None:
        order = await part(store, "o")
        await add(store, order)
        ready = await add(store, await part(store, "p", "payments"))
        assert ready.period is not None
        assert await store.joining.finish(TRIGGER, ready.period.number)

        again = await add(store, order)

        assert again == Added(Addition.KEPT)
        assert list(await store.joining.waiting(TRIGGER)) == []

    async def test_what_was_never_claimed_or_was_released_is_not_added(self, store: KeepsBeside) -> None:
        released = await part(store, "o")
        await store.release(TRIGGER, "o", released.fence)
        failed = await part(store, "f")
        await store.complete(TRIGGER, "f", failed.fence, EntryOutcome.FAILED)

        for late in (released, failed, made("never", 7)):
            assert await add(store, late) == Added(Addition.STALE)
        assert list(await store.joining.waiting(TRIGGER)) == []

    async def test_joins_of_odd_names(self, store: KeepsBeside) -> None:
        for n, (destination, other) in enumerate(pairwise(ODD_NAMES)):
            for m, activation in enumerate(ODD_UUIDS):
                terms = JoinTerms(destinations=(destination, other), time_out=LONG)
                await add(store, await part(store, f"1-{n}-{m}", destination, activation), terms)
                last = await add(store, await part(store, f"2-{n}-{m}", other, activation), terms)
                assert last.period is not None
                assert last.period.activation == activation
                assert last.period.parts.keys() == {destination, other}
                await store.joining.finish(TRIGGER, last.period.number)
