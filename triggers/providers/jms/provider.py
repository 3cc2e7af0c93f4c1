"""Any JMS provider, through its own client in a Java virtual machine within this process."""

from typing import Self

from triggers.providers.jms.asyncio import AsyncJmsProvider
from triggers.providers.jms.client import JmsClient
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.settings import JmsSettings


class JmsProvider(JmsClient):
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
        super().__init__(JmsLink(settings))
        self.settings = settings

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make a provider for a URL as :meth:`JmsSettings.from_url` reads it; nothing is connected yet."""
        return cls(JmsSettings.from_url(url))

    def for_asyncio(self) -> AsyncJmsProvider:
        """Return the same provider for asyncio, with connections of its own; it must be closed by itself."""
        return AsyncJmsProvider(JmsLink(self.settings))
