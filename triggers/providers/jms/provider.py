"""Any JMS provider, through its own client in a Java virtual machine within this process."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Self

from history.errors import ConfigurationError
from history.message import Message
from triggers.providers.brokers.driven import DrivenProvider, DrivenReceiver
from triggers.providers.brokers.driver_thread import DriverThread
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.receiver import JmsReceiver
from triggers.providers.jms.sender import JmsSender
from triggers.providers.jms.settings import JmsSettings
from triggers.providers.jms.targets import Target, public_name_of
from triggers.providers.provider import DestinationGoneError, Limits


class JmsProvider:
    """A JMS provider as it is: javax.jms or jakarta.jms, as its jars hold. Safe between threads.

    A destination is a queue's name, ``topic:NAME``, or ``jndi:NAME`` for the queue or topic that JNDI has.
    ``?selector=...`` after it goes to the provider, which keeps back messages that do not match. All triggers
    on one queue share its messages: JMS queues have no subscriptions. On a topic each trigger has a durable
    subscription (client id and name made of the trigger's name and the topic's). It has one consumer at a
    time, which gets one message at a time; others wait for it. The provider decides what happens to a message
    for a queue that does not exist; ActiveMQ makes the queue.

    Each message in flight has its own session, because CLIENT_ACKNOWLEDGE acknowledges everything that its
    session has consumed. A message is given back by closing its session, and the provider delivers it again,
    to any consumer. A message with a delay is held here, unsettled, for so long. Dead letters of ``orders``
    go to the queue ``DLQ.orders``, in one step with ``session="transacted"``; otherwise a crash in between
    leaves the message in both. Object messages are never opened, and moved there whole.

    The provider sets JMSMessageID, JMSTimestamp and JMSExpiration when a message is sent; a message that had
    an id before keeps it as its ``uuid``. JMS 1.1 cannot delay a message.

    The delivery count is the provider's JMSXDeliveryCount. But if the provider may forget deliveries, a 1
    becomes -1, unless ``first_count="as_told"``.

    Guarantee: in doubt, or what the trigger's effects add to it (fenced, atomic). By itself: the provider
    delivers a message until it is acknowledged. Nothing is lost that it keeps: persistent messages, on disk.
    """

    def __init__(self, settings: JmsSettings) -> None:
        self.settings = settings
        self._link = JmsLink(settings)
        self._sender = JmsSender(self._link)
        self._subscribed: set[tuple[str, str]] = set()
        self._opening = threading.Lock()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make a provider for a URL as :meth:`JmsSettings.from_url` reads it; it does not connect yet."""
        return cls(JmsSettings.from_url(url))

    def for_asyncio(self) -> "AsyncJmsProvider":
        """Return the same provider for asyncio, with other connections; close it separately."""
        return AsyncJmsProvider(JmsProvider(self.settings), JmsDriverThread("doubtless-jms"))

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


class JmsDriverThread(DriverThread):
    """A thread in which Java works. A JMS session belongs to one thread, and waiting blocks it in JMS 1.1."""

    def __init__(self, name: str) -> None:
        super().__init__(name, ending=jms_jvm.detach, refuse_forked=jms_jvm.refuse_forked)


class AsyncJmsProvider(DrivenProvider[JmsProvider]):
    """A :class:`JmsProvider` that does not block the event loop: each receiver has its own thread."""

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> "AsyncJmsReceiver":
        """Open a consumer, as the blocking form, with its own thread."""
        opening = self._provider.open_receiver(destination, subscription=subscription, name=name)
        return await AsyncJmsReceiver.opened(JmsDriverThread(f"doubtless-jms-{name}"), opening)

    async def open_temporary(self, purpose: str) -> "tuple[str, AsyncJmsReceiver]":
        """Open the only consumer of a temporary queue."""
        thread = JmsDriverThread(f"doubtless-jms-{purpose}")
        try:
            opening = self._provider.open_temporary(purpose)
            name, receiver = await thread.do(opening, unwanted=_close_temporary)
        except BaseException:
            thread.end()
            raise
        return name, AsyncJmsReceiver(receiver, thread)

    async def ping(self) -> None:
        """Return when the provider answers."""
        await self._thread.do(self._provider.ping())


async def _close_temporary(opened: tuple[str, JmsReceiver]) -> None:
    await opened[1].close()


class AsyncJmsReceiver(DrivenReceiver[JmsReceiver]):
    """A :class:`~triggers.providers.jms.receiver.JmsReceiver` in its thread."""

    @property
    def limits(self) -> Limits:
        """The limits of the blocking form."""
        return self._receiver.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._receiver.limits = limits
