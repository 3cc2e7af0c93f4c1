"""A cancelled task is not a dead process: the state of its message stays known."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from history import Claim, Entry, MemoryHistory, State
from history.bridge import drive
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import Message, Status, Trigger, trigger


class Pausing(MemoryHistory):
    """A history that does each call, but answers the call ``pauses`` only when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = ""
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def claim(self, *words: Any, **terms: Any) -> Sequence[Claim]:
        claims = await super().claim(*words, **terms)
        await self._pause("claim")
        return claims

    async def take_over(self, *words: Any, **terms: Any) -> Claim | None:
        taken = await super().take_over(*words, **terms)
        await self._pause("take_over")
        return taken

    async def settle(self, *words: Any, **terms: Any) -> Sequence[bool]:
        await self._pause("settle")
        return await super().settle(*words, **terms)

    async def _pause(self, verb: str) -> None:
        if verb == self.pauses:
            self.asked.set()
            await self.may_answer.wait()


class Booking:
    """A trigger, its history, and the uuids that ran; with ``holds``, the service waits for ever."""

    def __init__(self, lease: timedelta | None = None) -> None:
        self.history = Pausing()
        self.runs: list[str | None] = []
        self.holds = False
        self.trigger: Trigger[..., Any] = self._made(lease)

    def _made(self, lease: timedelta | None) -> Trigger[..., Any]:
        @trigger("orders", name="book", history=self.history, lease=lease)
        async def book(message: Message) -> None:
            self.runs.append(message.uuid)
            if self.holds:
                self.history.asked.set()
                await asyncio.Event().wait()

        return book

    async def deliver(self, uuid: str, times: int) -> Status | None:
        return (await self.trigger.ahandle(message(uuid, times))).status

    async def cancel(self, delivery: Coroutine[Any, Any, Any], when: str = "") -> None:
        """Cancel a delivery after the history or the service was called."""
        self.history.pauses = when
        task = asyncio.create_task(delivery)
        await asyncio.wait_for(self.history.asked.wait(), PATIENCE)
        task.cancel()
        answering = asyncio.get_running_loop().call_later(0.01, self.history.may_answer.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        answering.cancel()  # otherwise it might answer the next call
        self.history.pauses, self.holds = "", False


def message(uuid: str, times: int = 1) -> Message:
    return Message(uuid=uuid, body="", delivery_count=times)


@pytest.fixture(params=[timedelta(seconds=30), None], ids=["leased", "without a lease"])
def booking(request: pytest.FixtureRequest) -> Callable[[], Booking]:
    return lambda: Booking(request.param)


def test_a_message_that_was_cancelled_while_it_was_claimed_runs_when_it_comes_again(
    booking: Callable[[], Booking],
) -> None:
    async def delivered() -> tuple[list[Status | None], list[str | None]]:
        book = booking()
        await book.cancel(book.deliver("one", 1), "claim")
        return [await book.deliver("one", times) for times in (2, 3)], book.runs

    assert asyncio.run(delivered()) == ([Status.NEW, Status.DUPLICATE], ["one"])


def test_so_does_one_whose_time_was_over_and_that_comes_again_in_another_event_loop() -> None:
    book = Booking()

    async def timed_out() -> None:
        book.history.pauses = "claim"
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await book.deliver("one", 1)
        book.history.pauses = ""

    asyncio.run(timed_out())

    assert asyncio.run(book.deliver("one", 2)) is Status.NEW


def test_a_take_over_that_was_cancelled_is_taken_up(booking: Callable[[], Booking]) -> None:
    async def delivered() -> tuple[Status | None, list[str | None]]:
        book = booking()
        await book.cancel(book.deliver("one", 1), "claim")
        book.history.asked.clear()
        book.history.may_answer.clear()
        await book.cancel(book.deliver("one", 2), "take_over")
        return await book.deliver("one", 3), book.runs

    assert asyncio.run(delivered()) == (Status.NEW, ["one"])


def test_of_a_batch_that_was_cancelled_only_what_ran_is_in_doubt() -> None:
    async def delivered() -> tuple[list[Status | None], list[str | None]]:
        book = Booking()
        book.holds = True
        await book.cancel(book.trigger.ahandle_batch([message("one"), message("two"), message("three")]))
        again = [await book.deliver(uuid, 2) for uuid in ("one", "two", "three")]
        return again, book.runs

    expected = [Status.IN_DOUBT, Status.NEW, Status.NEW]
    assert asyncio.run(delivered()) == (expected, ["one", "two", "three"])


def test_what_has_run_is_completed_though_its_task_is_cancelled_meanwhile(
    booking: Callable[[], Booking],
) -> None:
    async def delivered() -> tuple[Status | None, list[str | None]]:
        book = booking()
        await book.cancel(book.deliver("one", 1), "settle")
        return await book.deliver("one", 2), book.runs

    assert asyncio.run(delivered()) == (Status.DUPLICATE, ["one"])


def test_what_was_claimed_by_a_cancelled_task_and_not_begun_is_soon_free_for_other_processes() -> None:
    async def left() -> Sequence[Entry | None]:
        book = Booking(timedelta(seconds=3))
        await book.cancel(book.deliver("claiming", 1), "claim")
        book.history.asked.clear()
        book.holds = True
        await book.cancel(book.trigger.ahandle_batch([message("runs"), message("waits")]))

        def entries() -> Sequence[Entry | None]:
            return drive(book.history.lookup("book", ["claiming", "waits", "runs"]))

        await asyncio.to_thread(eventually, lambda: entries()[:2] == [None, None])
        return entries()

    running = asyncio.run(left())[2]

    assert running is not None, "nobody knows what it has done"
    assert running.state is State.STARTED
