"""A slow keep-alive does not delay the others, and no receiver leaves during its keep-alive."""

import asyncio
from contextlib import suppress

from history.memory import MemoryHistory
from history.shell import TaskShell
from tests.fixtures.waiting import PATIENCE
from triggers import Message, trigger
from triggers.consumer.core import KEPT_TOGETHER, AsyncConsumer
from triggers.providers.memory import MemoryProvider, MemoryReceiver


class SlowAtFirst(MemoryProvider):
    def __init__(self) -> None:
        super().__init__(shell=TaskShell())
        self.last_was_kept = asyncio.Event()
        self.opened = 0

    def for_asyncio(self) -> "SlowAtFirst":
        return self

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> MemoryReceiver:
        receiver = await super().open_receiver(destination, subscription=subscription, name=name)
        self.opened += 1
        keep = {1: self.last_was_kept.wait, KEPT_TOGETHER + 1: self._note}.get(self.opened)
        if keep is not None:
            vars(receiver)["keep_alive"] = keep
        return receiver

    async def _note(self) -> None:
        self.last_was_kept.set()


async def test_one_slow_receiver_holds_up_only_some_of_the_others() -> None:
    provider = SlowAtFirst()

    @trigger("orders", name="orders", concurrency=KEPT_TOGETHER + 1)
    async def work(message: Message) -> None: ...

    consumer = AsyncConsumer([work], provider, history=MemoryHistory())
    running = asyncio.create_task(consumer.run())
    await asyncio.wait_for(provider.last_was_kept.wait(), PATIENCE)
    consumer.stop()
    await asyncio.wait_for(running, PATIENCE)


class SlowToBeKept(MemoryProvider):
    """A provider with receivers that record their calls; a keep-alive waits until it may end."""

    def __init__(self) -> None:
        super().__init__(shell=TaskShell())
        self.asked: list[str] = []
        self.keeping, self.may_end, self.closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def for_asyncio(self) -> "SlowToBeKept":
        return self

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> MemoryReceiver:
        receiver = await super().open_receiver(destination, subscription=subscription, name=name)
        close = receiver.close

        async def keep_alive() -> None:
            self.keeping.set()
            await self.may_end.wait()
            self.asked.append("kept alive")

        async def leave() -> None:
            self.asked.append("closed")
            self.closed.set()
            await close()

        vars(receiver).update(keep_alive=keep_alive, close=leave)
        return receiver


async def test_a_receiver_is_closed_after_the_keep_alive_that_was_under_way() -> None:
    provider = SlowToBeKept()

    @trigger("orders", name="orders")
    async def work(message: Message) -> None: ...

    consumer = AsyncConsumer([work], provider, history=MemoryHistory())
    running = asyncio.create_task(consumer.run())
    await asyncio.wait_for(provider.keeping.wait(), PATIENCE)
    consumer.stop()
    with suppress(TimeoutError):  # which is what should happen
        await asyncio.wait_for(provider.closed.wait(), 1)
    provider.may_end.set()
    await asyncio.wait_for(running, PATIENCE)

    assert provider.asked == ["kept alive", "closed"]
