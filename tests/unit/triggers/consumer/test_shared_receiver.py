"""Many workers share one receiver: who gets which message, and what happens when a worker leaves."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from history.message import Message
from triggers.consumer.receivers import Part, SharedReceiver
from triggers.providers.provider import AT_ONCE, Arrival, Limits, ProviderUnavailableError, Received

LONG = timedelta(seconds=60)
AT_NOTHING = timedelta(0)


class Stream:
    """A provider and its only receiver: it returns messages from a list, and records its calls."""

    def __init__(self) -> None:
        self.waiting: list[Received] = []
        self.arrived, self.asked, self.given_back = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.away = False
        self.opened = self.closed = self.kept_alive = 0
        self.limits = Limits()
        self.reads: list[int] = []
        self.acknowledged: list[list[object]] = []
        self.recovered: list[object] = []
        self.parked: list[object] = []

    keep_alive_interval = timedelta(seconds=20)

    def put(self, *names: str) -> None:
        self.waiting += [Arrival(Message(body="", uuid=name), name) for name in names]
        self.arrived.set()

    def _check(self) -> None:
        if self.away:
            raise ProviderUnavailableError("the stream", "being asked")

    async def open_for_many(self, destination: str, *, subscription: str, name: str) -> "Stream":
        assert (destination, subscription, name) == ("orders", "book", "one-book-0")
        self.opened += 1
        self._check()
        return self

    async def receive(self, limit: int, wait: timedelta = LONG) -> Sequence[Received]:
        self.reads.append(limit)
        self.asked.set()
        self._check()
        if not self.waiting:
            self.arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait.total_seconds()):
                    await self.arrived.wait()
        self._check()
        some, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return some

    async def acknowledge(self, received: Sequence[Received]) -> None:
        self._check()
        self.acknowledged.append([one.handle for one in received])

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:  # noqa: ARG002
        self.recovered += [one.handle for one in received]
        self.given_back.set()

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:  # noqa: ARG002
        self.parked += [one.handle for one in received]

    async def keep_alive(self) -> None:
        self._check()
        self.kept_alive += 1

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
async def stream() -> Stream:
    return Stream()


@pytest.fixture
async def shared(stream: Stream) -> SharedReceiver:
    return SharedReceiver(stream, destination="orders", subscription="book", name="one-book-0")


@pytest.fixture
async def parts(shared: SharedReceiver) -> AsyncIterator[list[Part]]:
    parts = await asyncio.gather(*(shared.open_part(f"worker-{number}") for number in range(4)))
    yield parts
    await asyncio.gather(*(part.close() for part in parts))


def handles(received: Sequence[Received]) -> list[object]:
    return [one.handle for one in received]


async def test_all_parts_are_of_one_receiver_which_closes_with_the_last(
    stream: Stream, shared: SharedReceiver
) -> None:
    parts = await asyncio.gather(*(shared.open_part(f"worker-{number}") for number in range(3)))

    await parts[0].close()
    await parts[0].close()
    await parts[1].close()

    assert (stream.opened, stream.closed) == (1, 0)
    await parts[2].close()
    assert (stream.opened, stream.closed) == (1, 1)
    again = await shared.open_part("worker-0")
    await again.close()
    assert (stream.opened, stream.closed) == (2, 2), "a trigger that was disabled is enabled again"


async def test_one_read_gives_each_waiting_worker_a_message(stream: Stream, parts: list[Part]) -> None:
    stream.put("a", "b", "c", "d", "e")

    received = await asyncio.gather(*(part.receive(10, LONG) for part in parts))

    assert [handles(some) for some in received] == [["a"], ["b"], ["c"], ["d"]]
    assert stream.reads == [4]
    assert handles(await parts[0].receive(10, LONG)) == ["e"]


async def test_who_waits_while_others_get_messages_is_answered_in_time(
    stream: Stream, parts: list[Part]
) -> None:
    patient = asyncio.create_task(parts[0].receive(1, LONG))
    await asyncio.sleep(0)
    hasty = asyncio.create_task(parts[1].receive(1, AT_NOTHING))
    await asyncio.sleep(0)

    stream.put("a")

    assert handles(await patient) == ["a"]
    assert list(await hasty) == []


async def test_nothing_comes_for_nobody(stream: Stream, parts: list[Part]) -> None:
    received = await asyncio.gather(*(part.receive(1, AT_NOTHING) for part in parts))

    assert [list(some) for some in received] == [[]] * 4


async def test_answers_of_the_same_moment_go_in_one_call(stream: Stream, parts: list[Part]) -> None:
    stream.put("a", "b", "c", "d")
    received = await asyncio.gather(*(part.receive(1, LONG) for part in parts))

    await asyncio.gather(*(part.acknowledge(some) for part, some in zip(parts, received, strict=True)))

    assert stream.acknowledged == [["a", "b", "c", "d"]]


async def test_a_provider_that_is_away_is_told_to_all_at_once(stream: Stream, shared: SharedReceiver) -> None:
    stream.away = True

    found = await asyncio.gather(*(shared.open_part(str(one)) for one in range(50)), return_exceptions=True)

    assert stream.opened == 1, "fifty time-outs one after the other would take minutes"
    assert all(isinstance(one, ProviderUnavailableError) for one in found)
    stream.away = False
    part = await shared.open_part("0")
    await part.close()
    assert stream.closed == 1


async def test_a_failed_read_is_told_to_all_and_the_next_one_tried(stream: Stream, parts: list[Part]) -> None:
    stream.away = True
    found = await asyncio.gather(*(part.receive(1, LONG) for part in parts), return_exceptions=True)
    stream.away = False
    stream.put("a")

    assert all(isinstance(one, ProviderUnavailableError) for one in found)
    assert handles(await parts[0].receive(1, LONG)) == ["a"]


async def test_what_comes_for_a_worker_that_was_cancelled_is_another_ones(
    stream: Stream, parts: list[Part]
) -> None:
    tasks = [asyncio.create_task(part.receive(1, LONG)) for part in parts[:2]]
    await stream.asked.wait()
    tasks[0].cancel()

    stream.put("a")

    assert handles(await tasks[1]) == ["a"]


async def test_what_comes_for_nobody_any_more_is_given_back(stream: Stream, parts: list[Part]) -> None:
    task = asyncio.create_task(parts[0].receive(1, LONG))
    await stream.asked.wait()
    task.cancel()

    stream.put("a")
    await stream.given_back.wait()

    assert stream.recovered == ["a"]


async def test_a_worker_that_leaves_gives_back_its_message(stream: Stream, shared: SharedReceiver) -> None:
    leaving, staying = [await shared.open_part(name) for name in "ab"]
    stream.put("a", "b")
    await leaving.receive(1, LONG)
    held = await staying.receive(1, LONG)

    await leaving.close()

    assert (stream.recovered, stream.closed) == (["a"], 0)
    await staying.dead_letter(held, "because")
    await staying.close()
    assert (stream.recovered, stream.parked, stream.closed) == (["a"], ["b"], 1)


async def test_the_last_that_leaves_ends_a_read_that_nobody_waits_for(
    stream: Stream, shared: SharedReceiver
) -> None:
    part = await shared.open_part("worker-0")
    task = asyncio.create_task(part.receive(1, LONG))
    await stream.asked.wait()
    task.cancel()

    await asyncio.wait_for(part.close(), 30)

    assert stream.closed == 1


async def test_all_that_is_held_is_kept_alive_with_one_call(stream: Stream, parts: list[Part]) -> None:
    for part in parts:
        await part.keep_alive()

    assert stream.kept_alive == 1
    assert {part.keep_alive_interval for part in parts} == {timedelta(seconds=20)}


async def test_a_receiver_that_is_closed_is_not_kept_alive(stream: Stream, shared: SharedReceiver) -> None:
    part = await shared.open_part("worker-0")
    await part.close()

    await part.keep_alive()

    assert stream.kept_alive == 0


async def test_the_limits_of_a_trigger_are_those_of_the_receiver(stream: Stream, parts: list[Part]) -> None:
    parts[0].limits = Limits(max_body_size=10)

    assert stream.limits == parts[1].limits == Limits(max_body_size=10)
