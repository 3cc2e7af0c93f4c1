"""Only asyncio behaves like this. ``test_consumer.py`` and the other modules test both consumers."""

import asyncio
import signal
import threading
from datetime import timedelta

import pytest

from history import ConfigurationError, MemoryHistory, State
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import entry_in, is_drained, send
from triggers import AsyncConsumer, Consumer, Message, TransientError, trigger
from triggers.providers.memory import MemoryProvider


async def test_a_plain_function_runs_on_the_event_loops_own_thread() -> None:
    provider, ran_in = MemoryProvider(), list[threading.Thread]()

    @trigger("orders", name="orders")
    def work(message: Message) -> None:
        ran_in.append(threading.current_thread())

    await provider.send("orders", [Message(uuid="a", body="")])
    consumer = AsyncConsumer([work], provider, history=MemoryHistory())
    await asyncio.wait_for(consumer.run(until_idle=0.1), PATIENCE)

    assert ran_in == [threading.current_thread()]
    assert consumer.counts == {"orders": {"ok": 1}}


@pytest.mark.parametrize("coroutine", [False, True], ids=["function", "coroutine"])
async def test_a_service_that_blocks_the_event_loop_is_logged_with_its_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, coroutine: bool
) -> None:
    monkeypatch.setattr("triggers.consumer.core.LONG_CALLS_PAUSE", 0.01)
    provider, logged = MemoryProvider(), list[bool]()

    def look_up() -> None:
        monkeypatch.setattr("triggers.consumer.gate.LOGGED_AFTER", 0.0)
        eventually(lambda: "work (test_async_consumer.py:" in caplog.text, seconds=10)
        logged.append(True)

    @trigger("orders", name="orders")
    def work(message: Message) -> None:
        look_up()

    @trigger("orders", name="orders")
    async def async_work(message: Message) -> None:
        look_up()

    await provider.send("orders", [Message(uuid="a", body="")])
    consumer = AsyncConsumer([async_work if coroutine else work], provider, history=MemoryHistory())
    await consumer.run(until_idle=0.1)

    assert logged == [True]


async def test_cancelling_leaves_what_runs_in_doubt_and_gives_it_back(redis_url: str) -> None:
    begun = asyncio.Event()

    @trigger("orders", name="orders")
    async def work(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    await asyncio.to_thread(send, redis_url, "orders", "a", "b")
    running = asyncio.create_task(AsyncConsumer([work], redis_url, history=redis_url).run())
    await asyncio.wait_for(begun.wait(), PATIENCE)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, PATIENCE)

    entry = entry_in(redis_url, "orders", "a")
    assert entry is not None
    assert entry.state is State.STARTED
    assert entry_in(redis_url, "orders", "b") is None
    with connected(redis_url) as client:
        assert client.xinfo_consumers("orders", "orders")[0]["name"] == b"doubtless:waiting"
    assert not is_drained(redis_url, "orders")


async def test_a_monitor_may_be_a_coroutine_function() -> None:
    provider, runs = MemoryProvider(), list[int]()

    async def monitor() -> bool:
        await asyncio.sleep(0)
        return True

    @trigger(
        "orders",
        name="orders",
        on_retry_failure="suspend",
        monitor=monitor,  # type: ignore[arg-type]
        monitor_interval=timedelta(minutes=1),
    )
    async def work(message: Message) -> None:
        runs.append(message.delivery_count)
        if len(runs) == 1:
            raise TransientError

    await provider.send("orders", [Message(uuid="a", body="")])
    consumer = AsyncConsumer([work], provider, history=MemoryHistory())
    await asyncio.wait_for(consumer.run(until_idle=0.5), PATIENCE)

    assert runs == [1, 2]


async def test_signals_are_as_before_once_the_consumer_has_ended() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]

    @trigger("orders", name="orders")
    async def work(message: Message) -> None:
        pass

    consumer = AsyncConsumer([work], MemoryProvider(), history=MemoryHistory())
    await asyncio.wait_for(consumer.run(signals=True, until_idle=0.1), PATIENCE)

    assert [signal.getsignal(number) for number in numbers] == before


def test_the_blocking_consumer_refuses_a_coroutine_function() -> None:
    @trigger("orders", name="orders")
    async def work(message: Message) -> None:
        pass

    with pytest.raises(ConfigurationError, match="use AsyncConsumer"):
        Consumer([work], MemoryProvider(), history=MemoryHistory()).run()
