"""Any JMS provider, through its own client in a Java virtual machine within this process.

``jms_receiver.py`` is one consumer, ``jms_window.py`` one of its sessions, ``jms_sender.py`` sends,
``jms_codec.py`` turns messages, ``jms_places.py`` reads names, ``jms_settings.py`` settings, ``jms_link.py``
connects and translates errors, ``jms_asyncio.py`` is the same for asyncio, and ``jms_jvm.py`` is the JVM.
"""

import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

from history.errors import ConfigurationError
from history.message import Message
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.places import Place, told_of
from triggers.providers.jms.receiver import JmsReceiver
from triggers.providers.jms.sender import JmsSender
from triggers.providers.jms.settings import JmsSettings
from triggers.providers.provider import DestinationGoneError

if TYPE_CHECKING:
    from triggers.providers.jms.asyncio import AsyncJmsProvider


class JmsProvider:
    """A JMS provider as it is: javax.jms or jakarta.jms, whichever its jars hold. Safe between threads.

    A destination is a queue's name, or ``topic:NAME``; ``?selector=...`` after it is handed to the provider,
    which keeps back what does not match. All triggers on one queue share its messages: JMS queues have no
    subscriptions. On a topic each trigger has a durable subscription of its own (client id and name made of
    the trigger's name and the topic's), with one consumer at a time, which gets one message at a time;
    others wait in line for it. What is sent to a queue that does not exist is for the provider to decide;
    ActiveMQ makes it.

    Each message in flight has a session of its own, for CLIENT_ACKNOWLEDGE answers for all that its session
    has consumed. A message is given back by closing its session, and the provider delivers it again, to any
    consumer. One that is to come back later is held here, unanswered, for so long. Dead letters of
    ``orders`` go to the queue ``DLQ.orders``, in one step with ``session="transacted"``; otherwise a crash in
    between leaves the message in both. Object messages are never opened, and moved there whole.

    JMSMessageID, JMSTimestamp and JMSExpiration are given by the provider when something is sent; a message
    that had an id before keeps it as its ``uuid``. JMS 1.1 cannot delay a message.

    The delivery count is what the provider says in JMSXDeliveryCount, but a 1 is handed on as -1 where the
    provider may forget deliveries, unless ``first_count="as_told"``.

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
        """Make a provider for a URL as :meth:`JmsSettings.from_url` reads it; nothing is connected yet."""
        return cls(JmsSettings.from_url(url))

    def for_asyncio(self) -> "AsyncJmsProvider":
        """Return the same provider for asyncio, with connections of its own; it must be closed by itself."""
        from triggers.providers.jms.asyncio import AsyncJmsProvider  # noqa: PLC0415  (they need each other)

        return AsyncJmsProvider(JmsProvider(self.settings))

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages, some hundreds in one transaction, and return their JMSMessageIDs."""
        return self._sender.send(destination, messages) if messages else []

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> JmsReceiver:
        """Open a consumer. Of a topic, a subscription has one: others of this process are refused.

        Raises:
            ProviderUnavailableError: nobody answers, or another process consumes this durable subscription.
            ConfigurationError: the provider refuses it, and will.
        """
        del name  # JMS consumers have none
        place = Place.parse(destination)
        left = partial(self._leave, (place.told, subscription))
        if not place.is_shared:
            self._enter((place.told, subscription))
        receiver = JmsReceiver(self._link, place, subscription=subscription, left=left)
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
                    "let concurrency be 1, or have the topic's messages put into a queue",
                )
            self._subscribed.add(wanted)

    def _leave(self, wanted: tuple[str, str]) -> None:
        with self._opening:
            self._subscribed.discard(wanted)

    async def open_temporary(self, purpose: str) -> tuple[str, JmsReceiver]:
        """Open the one consumer of a temporary queue, which ends with its connection."""
        receiver = TemporaryReceiver(
            self._link, Place("temporary", purpose, purpose), subscription="temporary", left=lambda: None
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
        """Close what sends. Receivers are to be closed before."""
        self._sender.close()


class TemporaryReceiver(JmsReceiver):
    """The consumer of a temporary queue, made with its connection and gone with it.

    When the connection is lost, so are the queue and what was in it: every ``receive`` says so then.
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
        self._place = Place("temporary", name, name)
        self.name = told_of("temporary", name)
