"""The work of a JMS provider in the calling thread: send, and open consumers.

The blocking provider uses it directly; the asyncio provider drives it in threads.
"""

import threading
from collections.abc import Sequence
from functools import partial

from history.errors import ConfigurationError
from history.message import Message
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.receiver import JmsReceiver
from triggers.providers.jms.sender import JmsSender
from triggers.providers.jms.targets import Target, public_name_of
from triggers.providers.provider import DestinationGoneError


class JmsClient:
    """Sends, and opens consumers, over one link. Safe between threads."""

    def __init__(self, link: JmsLink) -> None:
        self._link = link
        self._sender = JmsSender(link)
        self._subscribed: set[tuple[str, str]] = set()
        self._opening = threading.Lock()

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages, some hundreds in one transaction, and return their JMSMessageIDs."""
        return self._sender.send(destination, messages) if messages else []

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> JmsReceiver:
        """Open a consumer. A topic's subscription has one consumer: others of this process are refused.

        Raises:
            ProviderUnavailableError: nobody answers, or another process consumes this durable subscription.
            ConfigurationError: the provider refuses it, and always will.
        """
        del name  # JMS consumers have none
        target = self._link.target(destination)
        left = partial(self._leave, (target.public_name, subscription))
        if not target.is_shared:
            self._enter((target.public_name, subscription))
        receiver = JmsReceiver(self._link, target, subscription=subscription, left=left)
        try:
            await receiver.open()
        except BaseException:
            left()
            raise
        return receiver

    def _enter(self, wanted: tuple[str, str]) -> None:
        with self._opening:
            if wanted in self._subscribed:
                raise ConfigurationError(
                    "concurrency",
                    f"the durable subscription of {wanted[1]!r} to {wanted[0]} has one consumer",
                    "set concurrency=1, or have the topic's messages put into a queue",
                )
            self._subscribed.add(wanted)

    def _leave(self, wanted: tuple[str, str]) -> None:
        with self._opening:
            self._subscribed.discard(wanted)

    async def open_temporary(self, purpose: str) -> tuple[str, JmsReceiver]:
        """Open the only consumer of a temporary queue, which ends with its connection."""
        receiver = TemporaryQueueReceiver(
            self._link, Target("temporary", purpose, purpose), subscription="temporary", left=lambda: None
        )
        await receiver.open()
        return receiver.name, receiver

    async def ping(self) -> None:
        """Return when a connection could be opened.

        Raises:
            ProviderUnavailableError: it could not.
        """
        jms_jvm.close_quietly(self._link.connect("looking whether it is there"))

    async def close(self) -> None:
        """Close the sender. Close the receivers before."""
        self._sender.close()


class TemporaryQueueReceiver(JmsReceiver):
    """The consumer of a temporary queue, which is made with its connection and ends with it.

    If the connection is lost, the queue and its messages are lost: every later ``receive`` raises an error.
    """

    name = ""

    def _connect(self) -> None:
        if self.name:
            raise DestinationGoneError("the JMS provider", "receiving: the temporary queue is gone")
        super()._connect()
        with self._link.asking("making a temporary queue"):
            session = self._link.session(self._connection, transacted=False)
            queue = session.createTemporaryQueue()
            name = str(queue.getQueueName())
        self._link.remember(name, queue)
        self._target = Target("temporary", name, name)
        self.name = public_name_of("temporary", name)
