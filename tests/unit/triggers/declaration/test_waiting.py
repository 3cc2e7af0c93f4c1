"""``wait=``: a caller can wait while another process runs the same message."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from history import Claim, ConfigurationError, MemoryHistory, Message
from history.bridge import drive
from tests.unit.helpers.in_memory import Clock, Effects, made, message, started_by_another
from triggers import Outcome, Status, Trigger
from triggers.guards import protect

#: A lease longer than any pause of the machine, and a wait that ends only in a failing test.
LONG = timedelta(hours=1)
WAIT = timedelta(minutes=10)


class Watched(MemoryHistory):
    """A history that counts claims; a test can make something happen before one of them."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock=clock or Clock())
        self.claims = 0
        self.before: dict[int, Callable[[Watched], Any]] = {}

    async def claim(self, *arguments: Any, **terms: Any) -> Sequence[Claim]:
        self.claims += 1
        if (happens := self.before.get(self.claims)) is not None:
            await happens(self)
        return await super().claim(*arguments, **terms)

    async def end_the_other(self, *, well: bool) -> None:
        (entry,) = await self.lookup("book", ["u-1"])
        assert entry is not None
        await (self.complete if well else self.release)("book", "u-1", entry.fence)


def taken(store: MemoryHistory, **settings: Any) -> tuple[Trigger[..., object], Effects]:
    """Make a trigger while another process runs its message."""
    effects = Effects()
    book = made(effects, history=store, lease=LONG, **settings)
    started_by_another(book, lease=LONG)
    assert isinstance(store, Watched)
    store.claims = 0
    return book, effects


def by_thread(book: Trigger[..., object], wait: timedelta | None) -> Outcome:
    return book.handle(message(), wait=wait)


def by_task(book: Trigger[..., object], wait: timedelta | None) -> Outcome:
    return asyncio.run(book.ahandle(message(), wait=wait))


@pytest.mark.parametrize("handle", [by_thread, by_task])
class TestTheOtherRun:
    def test_it_ends_well_and_the_waiting_message_is_a_duplicate_told_of_once(self, handle: Any) -> None:
        store, heard = Watched(), list[Outcome]()

        def hear(_: Message, outcome: Outcome) -> None:
            heard.append(outcome)

        book, effects = taken(store, on_duplicate=hear)
        store.before[4] = lambda seen: seen.end_the_other(well=True)

        outcome = handle(book, WAIT)

        assert (outcome.status, outcome.executed, outcome.acknowledge) == (Status.DUPLICATE, False, True)
        assert [one.status for one in heard] == [Status.DUPLICATE]
        assert (store.claims, effects.runs) == (4, [])

    def test_it_gives_its_message_back_and_the_waiting_one_runs(self, handle: Any) -> None:
        store = Watched()
        book, effects = taken(store)
        store.before[3] = lambda seen: seen.end_the_other(well=False)

        outcome = handle(book, WAIT)

        assert (outcome.status, outcome.executed) == (Status.NEW, True)
        assert effects.runs == ["u-1"]

    def test_it_dies_and_the_waiting_message_is_in_doubt_when_its_lease_is_over(self, handle: Any) -> None:
        clock = Clock()
        store = Watched(clock)
        book, effects = taken(store)

        async def die(_: Watched) -> None:
            clock.now += LONG + timedelta(seconds=1)

        store.before[3] = die

        outcome = handle(book, WAIT)

        assert (outcome.status, outcome.row, outcome.parked) == (Status.IN_DOUBT, 10, True)
        assert effects.runs == []

    @pytest.mark.parametrize("wait", [timedelta(0), timedelta(milliseconds=30)])
    def test_it_takes_longer_and_the_message_is_recovered(self, handle: Any, wait: timedelta) -> None:
        store = Watched()
        book, effects = taken(store)

        outcome = handle(book, wait)

        assert (outcome.status, outcome.row, outcome.acknowledge) == (None, 12, False)
        assert outcome.recover_after > 0
        assert effects.runs == []

    def test_nobody_waits_who_does_not_say_so(self, handle: Any) -> None:
        store = Watched()
        book, _ = taken(store)

        assert handle(book, None).row == 12
        assert store.claims == 1

    @pytest.mark.parametrize("wrong", [5, True, "soon", timedelta(seconds=-1)])
    def test_what_is_no_duration_is_refused_before_anything_runs(self, handle: Any, wrong: Any) -> None:
        effects = Effects()

        with pytest.raises(ConfigurationError, match="wait"):
            handle(made(effects), wrong)

        assert effects.runs == []


async def test_of_fifty_who_ask_at_once_one_runs_and_the_others_wait_for_it() -> None:
    store = Watched()
    guard = protect("book", history=store, lease=LONG)
    all_have_asked = asyncio.Event()

    async def all_ask(_: Watched) -> None:
        all_have_asked.set()

    store.before[50] = all_ask

    async def charge() -> str:
        await all_have_asked.wait()
        return "charged"

    outcomes = await asyncio.gather(*(guard.ahandle("u-1", charge, wait=WAIT) for _ in range(50)))

    assert [outcome.result for outcome in outcomes if outcome.executed] == ["charged"]
    assert sum(outcome.status is Status.DUPLICATE for outcome in outcomes) == 49


def test_a_guard_waits_in_a_thread_too() -> None:
    store = Watched()
    guard = protect("book", history=store, lease=LONG)
    drive(store.claim("book", ["u-1"], "somebody else", LONG))
    store.before[4] = lambda seen: seen.end_the_other(well=True)

    outcome = guard.handle("u-1", lambda: "charged again", wait=WAIT)

    assert (outcome.status, outcome.result) == (Status.DUPLICATE, None)
