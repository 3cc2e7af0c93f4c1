"""The provider in memory: how its receivers wait. The conformance suite tests its promises."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from history.bridge import drive
from history.message import Message
from tests.fixtures.threads import in_threads
from tests.fixtures.waiting import PATIENCE
from triggers.providers.memory import MemoryProvider
from triggers.providers.provider import Arrival, Received

LONG = timedelta(hours=1)


async def test_a_waiting_task_leaves_the_loop_free_and_wakes_when_something_is_sent() -> None:
    provider = MemoryProvider().for_asyncio()
    receiver = await provider.open_receiver("orders", subscription="s", name="a")
    waiting = asyncio.create_task(receiver.receive(1, LONG))
    await asyncio.sleep(0)

    assert not waiting.done()
    await provider.send("orders", [Message(body="x")])

    assert len(await asyncio.wait_for(waiting, PATIENCE)) == 1


async def test_a_waiting_task_is_woken_from_another_thread() -> None:
    provider = MemoryProvider()
    receiver = await provider.for_asyncio().open_receiver("orders", subscription="s", name="a")
    waiting = asyncio.create_task(receiver.receive(1, LONG))
    await asyncio.sleep(0)

    await asyncio.to_thread(drive, provider.send("orders", [Message(body="x")]))

    assert len(await asyncio.wait_for(waiting, PATIENCE)) == 1


async def test_a_cancelled_wait_leaves_the_message_for_the_next() -> None:
    provider = MemoryProvider().for_asyncio()
    receiver = await provider.open_receiver("orders", subscription="s", name="a")
    waiting = asyncio.create_task(receiver.receive(1, LONG))
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.wait([waiting])
    await provider.send("orders", [Message(body="x")])

    assert len(await asyncio.wait_for(receiver.receive(1, LONG), PATIENCE)) == 1


def test_a_waiting_thread_wakes_when_something_is_sent() -> None:
    provider = MemoryProvider()
    receiver = drive(provider.open_receiver("orders", subscription="s", name="a"))
    got: list[Sequence[Received]] = []
    thread = threading.Thread(target=lambda: got.append(drive(receiver.receive(1, LONG))), daemon=True)
    thread.start()

    drive(provider.send("orders", [Message(body="x")]))
    thread.join(PATIENCE)

    assert [len(received) for received in got] == [1]


def test_threads_share_a_subscription_without_losing_or_doubling() -> None:
    provider = MemoryProvider()
    drive(provider.send("orders", [Message(body=number) for number in range(2000)]))
    found: list[object] = []

    def work(name: str) -> None:
        receiver = drive(provider.open_receiver("orders", subscription="s", name=name))
        while got := drive(receiver.receive(7, timedelta(0))):
            drive(receiver.acknowledge(got))
            found.extend(one.handle for one in got)

    in_threads(lambda number: work(f"w{number}"), range(4))

    assert sorted(map(str, found)) == sorted(map(str, range(2000)))


@pytest.mark.parametrize("delay", [None, timedelta(milliseconds=100)], ids=["now", "later"])
def test_a_body_that_its_sender_changes_afterwards_arrives_as_it_was_sent(delay: timedelta | None) -> None:
    provider = MemoryProvider()
    due = None if delay is None else datetime.now(UTC) + delay
    message = Message(body={"lines": [1]}, delivery_time=due)
    drive(provider.send("orders", [message]))

    cast("dict[str, list[int]]", message.body)["lines"].append(2)

    receiver = drive(provider.open_receiver("orders", subscription="s", name="a"))
    (came,) = drive(receiver.receive(1, timedelta(seconds=PATIENCE)))
    assert cast("Arrival", came).message.body == {"lines": [1]}
