"""Many tasks ask at the same time, and one call answers them all."""

import asyncio
from collections.abc import Sequence

from history.gathering import Gathering


class Calls:
    """A call that returns ten times each number, and waits while it is held."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.called = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()

    async def __call__(self, asked: Sequence[int]) -> Sequence[int]:
        self.seen.append(list(asked))
        self.called.set()
        await self.free.wait()
        if 13 in asked:
            raise ValueError(13)
        return [10 * one for one in asked]


async def test_what_is_asked_during_a_call_goes_together_after_it() -> None:
    calls = Calls()
    calls.free.clear()
    gathering = Gathering(calls, most=100)
    first = asyncio.create_task(gathering.ask(1))
    await calls.called.wait()
    others = [asyncio.create_task(gathering.ask(number)) for number in (2, 3)]
    await asyncio.sleep(0)

    calls.free.set()

    assert await asyncio.gather(first, *others) == [10, 20, 30]
    assert calls.seen == [[1], [2, 3]]
    assert await gathering.ask(4) == 40, "a later call works too, after a pause"


async def test_a_call_has_no_more_than_the_most() -> None:
    calls = Calls()
    gathering = Gathering(calls, most=2)

    await asyncio.gather(*(gathering.ask(number) for number in range(5)))

    assert calls.seen == [[0, 1], [2, 3], [4]]


async def test_a_failure_is_that_of_its_own_call_alone() -> None:
    calls = Calls()
    gathering = Gathering(calls, most=2)

    found = await asyncio.gather(*(gathering.ask(number) for number in (1, 13, 3)), return_exceptions=True)

    assert [type(one) for one in found] == [ValueError, ValueError, int]


async def test_a_task_that_is_cancelled_takes_only_itself_away() -> None:
    calls = Calls()
    calls.free.clear()
    gathering = Gathering(calls, most=100)
    tasks = [asyncio.create_task(gathering.ask(number)) for number in (1, 2)]
    await calls.called.wait()
    waiting = [asyncio.create_task(gathering.ask(number)) for number in (3, 4)]
    await asyncio.sleep(0)

    tasks[0].cancel()
    waiting[0].cancel()
    await asyncio.sleep(0)
    calls.free.set()

    assert await tasks[1] == 20
    assert await waiting[1] == 40
    assert calls.seen == [[1, 2], [4]], "no task waits for 3 any longer"
    assert tasks[0].cancelled()


async def test_a_call_that_is_cancelled_leaves_nobody_waiting() -> None:
    async def interrupted(asked: Sequence[int]) -> Sequence[int]:
        raise asyncio.CancelledError

    gathering = Gathering(interrupted, most=1)
    tasks = [asyncio.create_task(gathering.ask(number)) for number in (1, 2)]

    done, left = await asyncio.wait(tasks, timeout=60)

    assert not left
    assert all(task.cancelled() for task in done)


async def test_too_few_answers_are_an_error_for_all() -> None:
    async def forgetful(asked: Sequence[int]) -> Sequence[int]:
        return list(asked)[1:]

    gathering = Gathering(forgetful, most=10)

    found = await asyncio.gather(gathering.ask(1), gathering.ask(2), return_exceptions=True)

    assert all(isinstance(one, ValueError) for one in found), found
