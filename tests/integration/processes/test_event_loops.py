"""A program runs one event loop after another. It keeps nothing of a closed loop."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from operator import le
from pathlib import Path

import psutil
import pytest

from tests.fixtures.waiting import eventually
from triggers import Message, Producer, trigger
from triggers.producer.sender import Sender
from triggers.providers.memory import MemoryProvider

LOOPS = 30


def held() -> tuple[int, int]:
    """Count the connections and threads of this process, after a garbage collection.

    Files are not counted: SQLite itself keeps them for its next connection while another one is open.
    """
    gc.collect()
    return len(psutil.Process().net_connections()), threading.active_count()


@pytest.fixture(autouse=True)
def leaving_nothing_behind() -> Iterator[None]:
    """Collect the objects of the last loop inside the test, because drivers warn about them."""
    yield
    gc.collect()


@pytest.fixture(params=["redis", "sqlite"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of the history."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/history.db"
    return str(request.getfixturevalue("redis_url"))


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_trigger_keeps_the_connections_of_the_last_loop_only(history: str) -> None:
    @trigger("orders", name="book", history=history)
    async def book(message: Message) -> None: ...

    def handle(number: int) -> None:
        asyncio.run(book.ahandle(Message(body="x", uuid=f"order-{number}")))

    handle(-1)
    connections, threads = held()

    for number in range(LOOPS):
        handle(number)

    assert eventually(lambda: all(map(le, held(), (connections + 2, threads + 2))))


def senders() -> int:
    gc.collect()
    # Not isinstance(): it asks objects for their class, and some objects of other tests refuse that.
    return sum(type(one) is Sender for one in gc.get_objects())


def test_a_producer_keeps_the_sender_of_the_last_loop_only() -> None:
    producer = Producer(MemoryProvider())
    asyncio.run(producer.asend("orders", "x"))
    before = senders()

    for _ in range(LOOPS):
        asyncio.run(producer.asend("orders", "x"))

    assert senders() <= before
