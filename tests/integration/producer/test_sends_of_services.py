"""Messages of a transacted service use working connections. No connection stays open afterwards."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from history import MemoryHistory, Message
from history.bridge import drive
from triggers import Outcome, Producer, TransientError, open_provider, send, trigger
from triggers.providers import Arrival

ORDER = Message(uuid="order-1", body="")


@pytest.fixture(params=["redis", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return cast("str", request.getfixturevalue("redis_url"))
    return f"sqlite:///{tmp_path}/messages.sqlite3"


def arrived(url: str) -> int:
    """Count the messages that were sent to "letters"."""
    provider = open_provider(url)
    receiver = drive(provider.open_receiver("letters", subscription="look", name="look"))
    found = drive(receiver.receive(100))
    drive(receiver.close())
    drive(provider.close())
    return sum(isinstance(one, Arrival) for one in found)


def open_files(folder: Path) -> list[str]:
    found: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            found.append(str(descriptor.readlink()))
    return [name for name in found if name.startswith(str(folder))]


def run(work: Callable[[], object]) -> Outcome:
    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True)
    def order() -> None:
        work()

    return order.handle(ORDER)


def test_a_blocking_service_may_send_in_an_event_loop_of_its_own(url: str) -> None:
    producer = Producer(url)

    async def work() -> None:
        async with producer:
            await producer.asend("letters", "dear customer")

    assert run(lambda: asyncio.run(work())).acknowledge
    assert arrived(url) == 1


def test_a_service_may_close_its_producer(url: str) -> None:
    def work() -> None:
        with Producer(url) as producer:
            producer.send("letters", "dear customer")
        send("letters", "dear neighbour", provider=url)

    assert run(work).acknowledge
    assert arrived(url) == 2


async def test_a_coroutine_function_may_close_its_producer(url: str) -> None:
    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True)
    async def order() -> None:
        async with Producer(url) as producer:
            await producer.asend("letters", "dear customer")
        send("letters", "dear neighbour", provider=url)

    assert (await order.ahandle(ORDER)).acknowledge
    assert arrived(url) == 2


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
def test_a_producer_that_a_service_closed_has_no_connection_afterwards(
    tmp_path: Path, *, fails: bool
) -> None:
    url = f"sqlite:///{tmp_path}/messages.sqlite3"

    async def work_in_a_loop() -> None:
        async with Producer(url) as producer:
            await producer.arequest("letters", "?", timeout=timedelta(milliseconds=1))
            await producer.asend("letters", "dear customer")

    def work() -> None:
        send("letters", "dear neighbour", provider=url)
        asyncio.run(work_in_a_loop())
        if fails:
            raise TransientError("for now")

    run(work)

    assert open_files(tmp_path) == []


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
async def test_under_asyncio_it_is_the_same(tmp_path: Path, *, fails: bool) -> None:
    url = f"sqlite:///{tmp_path}/messages.sqlite3"

    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True)
    async def order() -> None:
        async with Producer(url) as producer:
            await producer.asend("letters", "dear customer")
        with Producer(url) as producer:
            producer.request("letters", "?", timeout=timedelta(milliseconds=1))
            producer.send("letters", "dear neighbour")
        if fails:
            raise TransientError("for now")

    await order.ahandle(ORDER)

    assert open_files(tmp_path) == []
