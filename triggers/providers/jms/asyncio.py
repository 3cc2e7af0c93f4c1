"""The JMS provider for asyncio: each receiver has a thread of its own, in which its blocking form works.

JMS sessions belong to one thread, and JMS 1.1 knows no other way to wait than to block. A thread is a daemon:
a provider that never answers keeps no process from ending.
"""

from collections.abc import Sequence
from datetime import timedelta

from history.message import Message
from triggers.providers.brokers import driver_thread
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.client import JmsClient
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.receiver import JmsReceiver
from triggers.providers.provider import AT_ONCE, RECEIVE_WAIT, Limits, Received


class DriverThread(driver_thread.DriverThread):
    """A thread in which Java works."""

    def __init__(self, name: str) -> None:
        super().__init__(name, ending=jms_jvm.detach, refuse_forked=jms_jvm.refuse_forked)


class AsyncJmsProvider:
    """A :class:`~triggers.providers.jms.JmsProvider` whose calls do not block the event loop."""

    def __init__(self, link: JmsLink) -> None:
        self._client = JmsClient(link)
        self._thread = DriverThread("doubtless-jms")

    def for_asyncio(self) -> "AsyncJmsProvider":
        """Return itself."""
        return self

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send, as the blocking form."""
        return await self._thread.do(self._client.send(destination, messages))

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> "AsyncJmsReceiver":
        """Open a consumer, as the blocking form, with a thread of its own."""
        thread = DriverThread(f"doubtless-jms-{name}")
        opening = self._client.open_receiver(destination, subscription=subscription, name=name)
        try:
            receiver = await thread.do(opening, unwanted=JmsReceiver.close)
        except BaseException:
            thread.end()
            raise
        return AsyncJmsReceiver(receiver, thread)

    async def open_temporary(self, purpose: str) -> "tuple[str, AsyncJmsReceiver]":
        """Open the one consumer of a temporary queue."""
        thread = DriverThread(f"doubtless-jms-{purpose}")
        try:
            name, receiver = await thread.do(self._client.open_temporary(purpose))
        except BaseException:
            thread.end()
            raise
        return name, AsyncJmsReceiver(receiver, thread)

    async def ping(self) -> None:
        """Return when the provider answers."""
        await self._thread.do(self._client.ping())

    async def close(self) -> None:
        """Close what sends, and end its thread."""
        await self._thread.do(self._client.close())
        self._thread.end()


class AsyncJmsReceiver:
    """A :class:`~triggers.providers.jms.receiver.JmsReceiver` in its thread."""

    def __init__(self, receiver: JmsReceiver, thread: DriverThread) -> None:
        self._receiver = receiver
        self._thread = thread
        self._closed = False

    @property
    def limits(self) -> Limits:
        """As of the blocking form."""
        return self._receiver.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._receiver.limits = limits

    @property
    def keep_alive_interval(self) -> timedelta:
        """As of the blocking form."""
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
        """Move to the dead letters."""
        await self._thread.do(self._receiver.dead_letter(received, reason))

    async def keep_alive(self) -> None:
        """Give back what is due, when the thread has time for it."""
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
