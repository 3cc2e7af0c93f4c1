"""Links for asyncio: each agent has its own thread, in which its blocking form works.

A service of the event loop works on the connection of the links' history. Its effects and the watermark are
one transaction there. The agent learns of it afterwards, as with a blocking service.
"""

from collections.abc import Sequence
from typing import Protocol

from history.message import Message
from history.sql.links.history import LinkHistory
from triggers.providers.brokers.driven_receiver import DrivenReceiver
from triggers.providers.brokers.driver_thread import DriverThread
from triggers.providers.provider import Provider
from triggers.providers.sqlremote.receiver import LinkReceiver


class BlockingLinks(Provider, Protocol):
    """The links that threads drive: :class:`~triggers.providers.sqlremote.links.Links`."""

    @property
    def history(self) -> LinkHistory:
        """The database of the links."""
        ...

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> LinkReceiver:
        """Open the only receiver of a link."""
        ...


class AsyncLinks:
    """:class:`~triggers.providers.sqlremote.Links` that do not block the event loop."""

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
        """Open the only receiver of a link, as the blocking form, with its own thread."""
        opening = self._links.open_receiver(destination, subscription=subscription, name=name)
        return await AsyncLinkReceiver.opened(DriverThread(f"doubtless-{destination}"), opening)

    async def close(self) -> None:
        """Leave the links, and end the thread. Close the receivers before."""
        await self._thread.do(self._links.close())
        self._thread.end()


class AsyncLinkReceiver(DrivenReceiver[LinkReceiver]):
    """A :class:`~triggers.providers.sqlremote.receiver.LinkReceiver` in its thread."""
