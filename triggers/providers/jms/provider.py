"""Any JMS provider, through its own client in a Java virtual machine within this process."""

from typing import Self

from triggers.providers.jms.asyncio import AsyncJmsProvider
from triggers.providers.jms.client import JmsClient
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.settings import JmsSettings


class JmsProvider(JmsClient):
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
        super().__init__(JmsLink(settings))
        self.settings = settings

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make a provider for a URL as :meth:`JmsSettings.from_url` reads it; it does not connect yet."""
        return cls(JmsSettings.from_url(url))

    def for_asyncio(self) -> AsyncJmsProvider:
        """Return the same provider for asyncio, with other connections; close it separately."""
        return AsyncJmsProvider(JmsLink(self.settings))
