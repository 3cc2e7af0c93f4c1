"""The JMS provider for asyncio: each receiver has its own thread, in which its blocking form works.

A JMS session belongs to one thread, and in JMS 1.1 waiting means blocking. The thread is a daemon: a provider
that never answers does not keep a process from ending.
"""

from collections.abc import Sequence

from history.message import Message
from triggers.providers.brokers import driver_thread
from triggers.providers.brokers.driven_receiver import DrivenReceiver
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.client import JmsClient
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.receiver import JmsReceiver
from triggers.providers.provider import Limits


class JmsDriverThread(driver_thread.DriverThread):
    """A thread in which Java works."""

    def __init__(self, name: str) -> None:
        super().__init__(name, ending=jms_jvm.detach, refuse_forked=jms_jvm.refuse_forked)


class AsyncJmsProvider:
    """A :class:`~triggers.providers.jms.JmsProvider` that does not block the event loop."""

    def __init__(self, link: JmsLink) -> None:
        self._client = JmsClient(link)
        self._thread = JmsDriverThread("doubtless-jms")

    def for_asyncio(self) -> "AsyncJmsProvider":
        """Return itself."""
        return self

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send, as the blocking form."""
        return await self._thread.do(self._client.send(destination, messages))

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> "AsyncJmsReceiver":
        """Open a consumer, as the blocking form, with its own thread."""
        opening = self._client.open_receiver(destination, subscription=subscription, name=name)
        return await AsyncJmsReceiver.opened(JmsDriverThread(f"doubtless-jms-{name}"), opening)

    async def open_temporary(self, purpose: str) -> "tuple[str, AsyncJmsReceiver]":
        """Open the only consumer of a temporary queue."""
        thread = JmsDriverThread(f"doubtless-jms-{purpose}")
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
        """Close the sender, and end its thread."""
        await self._thread.do(self._client.close())
        self._thread.end()


class AsyncJmsReceiver(DrivenReceiver[JmsReceiver]):
    """A :class:`~triggers.providers.jms.receiver.JmsReceiver` in its thread."""

    @property
    def limits(self) -> Limits:
        """The limits of the blocking form."""
        return self._receiver.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._receiver.limits = limits
