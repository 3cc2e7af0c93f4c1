"""Providers and receivers for asyncio, each with a blocking form in its own thread."""

from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, Generic, Self, TypeVar

from history.message import Message
from triggers.providers.brokers.driver_thread import DriverThread
from triggers.providers.provider import AT_ONCE, RECEIVE_WAIT, Provider, Received, Receiver

P = TypeVar("P", bound=Provider)
R = TypeVar("R", bound=Receiver)


class DrivenProvider(Generic[P]):
    """A blocking :class:`~triggers.providers.provider.Provider` in a thread, which ends with it."""

    def __init__(self, provider: P, thread: DriverThread) -> None:
        self._provider = provider
        self._thread = thread
        self._closed = False

    def for_asyncio(self) -> Self:
        """Return itself."""
        return self

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send, as the blocking form."""
        return await self._thread.do(self._provider.send(destination, messages))

    async def close(self) -> None:
        """Close the blocking form, and end the thread. Close the receivers before."""
        if not self._closed:
            self._closed = True
            try:
                await self._thread.do(self._provider.close())
            finally:
                self._thread.end()


class DrivenReceiver(Generic[R]):
    """A blocking :class:`~triggers.providers.provider.Receiver` in its thread, which ends with it."""

    def __init__(self, receiver: R, thread: DriverThread) -> None:
        self._receiver = receiver
        self._thread = thread
        self._closed = False

    @classmethod
    async def opened(cls, thread: DriverThread, opening: Coroutine[Any, Any, R]) -> Self:
        """Open the blocking form in a thread; if that fails, end the thread."""
        try:
            receiver = await thread.do(opening, unwanted=_close)
        except BaseException:
            thread.end()
            raise
        return cls(receiver, thread)

    @property
    def keep_alive_interval(self) -> timedelta:
        """The interval of the blocking form."""
        return self._receiver.keep_alive_interval

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Receive; what arrives after the wait was cancelled is given back."""
        return await self._thread.do(self._receiver.receive(limit, wait), unwanted=self._receiver.recover)

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Acknowledge."""
        await self._thread.do(self._receiver.acknowledge(received))

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Give back."""
        await self._thread.do(self._receiver.recover(received, delay))

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move to the dead letters, if the provider has them."""
        await self._thread.do(self._receiver.dead_letter(received, reason))

    async def keep_alive(self) -> None:
        """Keep what is held, when the thread has time for it."""
        if not self._closed:
            await self._thread.do(self._receiver.keep_alive())

    async def close(self) -> None:
        """Close, and end the thread."""
        if not self._closed:
            self._closed = True
            try:
                await self._thread.do(self._receiver.close())
            finally:
                self._thread.end()


async def _close(receiver: Receiver) -> None:
    await receiver.close()
