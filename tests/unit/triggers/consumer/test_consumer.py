"""The consumer behind both forms: what it closes, the names of its threads, and how it is cancelled."""

import asyncio
import gc
import threading
import time
from typing import Any

import pytest

from history import ConfigurationError, MemoryHistory, Message
from history.bridge import drive, settled
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import AsyncConsumer, Consumer, trigger
from triggers.providers.memory import MemoryProvider, MemoryReceiver


class Closing(MemoryHistory):
    """A history that records whether it was closed, and its twins for asyncio."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self.twins: list[Closing] = []

    def for_asyncio(self) -> "Closing":
        self.twins.append(Closing())
        return self.twins[-1]

    async def close(self) -> None:
        self.closed = True


def run(history: "str | Closing", *, blocking: bool) -> None:
    """Run one trigger with a history, and one without, until they are idle."""

    @trigger("orders", name="with")
    def work(message: Message) -> None: ...

    @trigger("orders", name="without", history=None)
    def work_without(message: Message) -> None: ...

    triggers = [work, work_without]
    if blocking:
        Consumer(triggers, MemoryProvider(), history=history).run(until_idle=0.01)
        return

    async def run_async() -> None:
        await AsyncConsumer(triggers, MemoryProvider(), history=history).run(until_idle=0.01)

    asyncio.run(run_async())


@pytest.mark.parametrize("signals", [True, False])
def test_only_a_consumer_that_has_the_process_to_itself_spares_what_is_loaded_the_garbage_collection(
    *, signals: bool
) -> None:
    @trigger("orders", history=None)
    def work(message: Message) -> None: ...

    gc.unfreeze()
    try:
        Consumer([work], MemoryProvider()).run(signals=signals, until_idle=0.01)

        assert (gc.get_freeze_count() > 1000) is signals
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("blocking", [True, False])
class TestClosing:
    def test_it_closes_the_history_that_it_opened(
        self, monkeypatch: pytest.MonkeyPatch, *, blocking: bool
    ) -> None:
        opened = Closing()

        def open_history(_url: str) -> Closing:
            return opened

        monkeypatch.setattr("triggers.consumer.core.open_history", open_history)

        run("memory://", blocking=blocking)

        assert opened.closed
        assert all(twin.closed for twin in opened.twins)
        assert bool(opened.twins) is not blocking

    def test_it_leaves_open_the_history_that_it_was_given(self, *, blocking: bool) -> None:
        given = Closing()

        run(given, blocking=blocking)

        assert not given.closed
        assert all(twin.closed for twin in given.twins)


def test_threads_are_called_after_the_consumer_and_what_they_do() -> None:
    expected = {"c-beat", "c-book-0", "c-book-1", "c-keep-alive", "c-chores", "c-long-calls"}

    def names() -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread.name.startswith("c-")}

    @trigger("orders", name="book", history=MemoryHistory(), concurrency=2)
    def work(message: Message) -> None:
        eventually(lambda: names() == expected)
        consumer.stop()

    provider = MemoryProvider()
    drive(provider.send("orders", [Message(uuid="a", body="")]))
    consumer = Consumer([work], provider, name="c")
    consumer.run()

    assert consumer.counts == {"book": {"ok": 1}}
    assert names() == set()


async def test_tasks_are_called_after_the_consumer() -> None:
    names: set[str] = set()

    @trigger("orders", name="book", history=MemoryHistory())
    async def work(message: Message) -> None:
        names.update(task.get_name() for task in asyncio.all_tasks())
        consumer.stop()

    provider = MemoryProvider()
    await provider.send("orders", [Message(uuid="a", body="")])
    consumer = AsyncConsumer([work], provider, name="c")
    await consumer.run()

    assert {name for name in names if name.startswith("c-")} == {"c-house", "c-book-0"}


async def test_cancelling_while_it_drains_cancels_what_runs_and_ends_everything() -> None:
    begun = asyncio.Event()

    @trigger("orders", name="book", history=MemoryHistory())
    async def work(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    provider = MemoryProvider()
    await provider.send("orders", [Message(uuid="a", body="")])
    consumer = AsyncConsumer([work], provider, name="c")
    running = asyncio.create_task(consumer.run())
    await asyncio.wait_for(begun.wait(), PATIENCE)
    consumer.stop()
    for _ in range(20):  # rounds of the event loop, until it waits for the service
        await asyncio.sleep(0)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, PATIENCE)

    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("c-")] == []


def test_a_busy_destination_keeps_no_message_of_another_one_waiting() -> None:
    provider, ran = MemoryProvider(), list[str]()
    drive(provider.send("busy", [Message(body="busy") for _ in range(1000)]))
    drive(provider.send("urgent", [Message(body="urgent") for _ in range(10)]))

    @trigger(["busy", "urgent"], name="work", history=None)
    def work(message: Message) -> None:
        ran.append(str(message.body))
        time.sleep(0.001)
        if ran.count("urgent") == 10:
            consumer.stop()

    consumer = Consumer([work], provider)
    consumer.run()

    assert ran.count("urgent") == 10
    assert ran.count("busy") < 1000


async def test_a_consumer_that_has_run_says_so_in_place_of_consuming_nothing() -> None:
    @trigger("orders", name="book", history=None)
    async def book(message: Message) -> None: ...

    consumer = AsyncConsumer([book], MemoryProvider())
    await consumer.run(until_idle=0.01)

    with pytest.raises(ConfigurationError, match=r"run: .* has run already.*; make another AsyncConsumer"):
        await consumer.run(until_idle=0.01)


@pytest.mark.parametrize("consumer_class", [Consumer, AsyncConsumer])
def test_a_provider_without_room_is_refused_before_the_start_is_reported(consumer_class: Any) -> None:
    class Full(MemoryProvider):
        def for_asyncio(self) -> "Full":
            return self

        async def check_room(self, receivers: int) -> None:
            raise ConfigurationError("max_connections", f"is less than {receivers}", "use more")

    @trigger("orders", name="book", history=None)
    def book(message: Message) -> None: ...

    reports = list[str]()

    async def run() -> None:
        running = consumer_class([book], Full()).run(until_idle=0, started=lambda: reports.append("started"))
        await settled(running)

    with pytest.raises(ConfigurationError) as refused:
        asyncio.run(run())

    assert (refused.value.setting, reports) == ("max_connections", [])


def test_acknowledgements_that_the_provider_refuses_are_counted() -> None:
    class Refuses(MemoryProvider):
        async def open_receiver(self, destination: str, *, subscription: str, name: str) -> MemoryReceiver:
            receiver = await super().open_receiver(destination, subscription=subscription, name=name)
            refusals = [3]
            vars(receiver)["take_refusals"] = lambda: refusals.pop() if refusals else 0
            return receiver

    @trigger("orders", name="orders")
    def work(message: Message) -> None: ...

    consumer = Consumer([work], Refuses(), history=MemoryHistory())
    consumer.run(until_idle=0.1)

    assert consumer.gates[0].statistics().refused == 3
