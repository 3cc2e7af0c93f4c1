"""Links for asyncio: each agent has a thread of its own, in which its blocking form works.

What a service of the event loop does on the connection of the links' history, and the watermark, are one
transaction there. The agent learns of it afterwards, as it does of a blocking service's.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from history.message import Message
from history.sql.links.history import LinkHistory
from triggers.providers.brokers.driver_thread import DriverThread
from triggers.providers.provider import AT_ONCE, RECEIVE_WAIT, Provider, Received
from triggers.providers.sqlremote.receiver import LinkReceiver


class BlockingLinks(Provider, Protocol):
    """What is driven in threads: :class:`~triggers.providers.sqlremote.links.Links`."""

    @property
    def history(self) -> LinkHistory:
        """The database of the links."""
        ...

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> LinkReceiver:
        """Open the one receiver of a link."""
        ...


class AsyncLinks:
    """:class:`~triggers.providers.sqlremote.Links` whose calls do not block the event loop."""

    def __init__(self, links: BlockingLinks) -> None:
        self._links = links
        self._thread = DriverThread("doubtless-links")

    @property
    def history(self) -> LinkHistory:
        """The database of the links."""
        return self._links.history

    def for_asyncio(self) -> "AsyncLinks":
        """Return itself."""
        return self

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Publish, as the blocking form."""
        return await self._thread.do(self._links.send(destination, messages))

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> "AsyncLinkReceiver":
        """Open the one receiver of a link, as the blocking form, with a thread of its own."""
        thread = DriverThread(f"doubtless-{destination}")
        opening = self._links.open_receiver(destination, subscription=subscription, name=name)
        try:
            receiver = await thread.do(opening, unwanted=LinkReceiver.close)
        except BaseException:
            thread.end()
            raise
        return AsyncLinkReceiver(receiver, thread)

    async def close(self) -> None:
        """Leave the links, and end the thread. Receivers are to be closed before."""
        await self._thread.do(self._links.close())
        self._thread.end()


class AsyncLinkReceiver:
    """A :class:`~triggers.providers.sqlremote.receiver.LinkReceiver` in its thread."""

    def __init__(self, receiver: LinkReceiver, thread: DriverThread) -> None:
        self._receiver = receiver
        self._thread = thread
        self._closed = False

    @property
    def keep_alive_interval(self) -> timedelta:
        """As of the blocking form."""
        return self._receiver.keep_alive_interval

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Receive, and run the link; what arrives after the wait was cancelled is given back."""
        return await self._thread.do(self._receiver.receive(limit, wait), unwanted=self._receiver.recover)

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Acknowledge."""
        await self._thread.do(self._receiver.acknowledge(received))

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Give back."""
        await self._thread.do(self._receiver.recover(received, delay))

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Refuse, as the blocking form."""
        await self._receiver.dead_letter(received, reason)

    async def keep_alive(self) -> None:
        """Do nothing, as the blocking form."""

    async def close(self) -> None:
        """Leave the link, and end the thread."""
        if not self._closed:
            self._closed = True
            try:
                await self._thread.do(self._receiver.close())
            finally:
                self._thread.end()
