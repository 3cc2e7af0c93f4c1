"""Helpers of the producer tests: an unreliable line to a provider in memory, and the arrived messages."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from history.bridge import drive
from history.message import Message
from history.shell import Background, ThreadShell
from triggers.providers.memory import MemoryProvider, MemoryReceiver
from triggers.providers.provider import Arrival, ProviderUnavailableError

#: The fate of a send: it arrives; it is lost; or it arrives and its reply is lost.
Fate = Literal["up", "down", "reply lost"]


class Line:
    """The way to a provider in memory; each send uses the next of ``fates``, and the last one stays."""

    def __init__(self, *fates: Fate) -> None:
        self.memory = MemoryProvider()
        self.fates: list[Fate] = list(fates) or ["up"]
        self.sends = 0

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        self.sends += 1
        fate = self.fates.pop(0) if len(self.fates) > 1 else self.fates[0]
        if fate == "down":
            raise ProviderUnavailableError("the line", "sending")
        names = await self.memory.send(destination, messages)
        if fate == "reply lost":
            raise ProviderUnavailableError("the line", "waiting for a reply")
        return names

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> MemoryReceiver:
        return await self.memory.open_receiver(destination, subscription=subscription, name=name)

    async def ping(self) -> None:
        if self.fates[0] == "down":
            raise ProviderUnavailableError("the line", "looking")

    def for_asyncio(self) -> "Line":
        return self

    async def close(self) -> None: ...


class StillShell(ThreadShell):
    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def spawn(self, name: str, background: Background) -> None: ...


def arrived(provider: MemoryProvider, destination: str = "orders") -> list[Message]:
    """Return everything that was sent to a destination so far."""
    receiver = drive(provider.open_receiver(destination, subscription="looking", name="looking"))
    got = drive(receiver.receive(100_000, timedelta(0)))
    drive(receiver.recover(got))
    drive(receiver.close())
    return [one.message for one in got if isinstance(one, Arrival)]


def firsts(messages: Sequence[Message]) -> list[str | None]:
    """Return the uuids without the second copies, as a document history lets them through."""
    return list(dict.fromkeys(message.uuid for message in messages))
