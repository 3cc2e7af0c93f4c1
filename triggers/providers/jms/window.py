"""One session with one consumer, which holds one message at a time."""

import time
from dataclasses import dataclass
from typing import Any

from history.errors import ConfigurationError
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.targets import Target

#: A durable subscriber also receives what its own connection sends.
_OWN_TOO = False

#: In JMS, "do not wait" is a separate method; this is the shortest wait, in milliseconds.
SHORTEST_WAIT = 1


@dataclass(slots=True)
class Window:
    """A separate session for each message in flight.

    CLIENT_ACKNOWLEDGE acknowledges everything that its session has consumed, and a rollback gives all of it
    back. So a session that settles one message must not have consumed another.
    """

    link: JmsLink
    session: Any
    consumer: Any

    @property
    def transacted(self) -> bool:
        """Whether settling is a commit."""
        return self.link.settings.session == "transacted"

    @classmethod
    def open(cls, link: JmsLink, connection: Any, target: Target, subscriber: str | None) -> "Window":
        """Open a session and its consumer; ``subscriber`` is the name of a subscription.

        Raises:
            ConfigurationError: it is shared, and the client has only JMS 1.1.
        """
        session = link.session(connection, transacted=link.settings.session == "transacted")
        try:
            destination, selector = link.destination(session, target), target.selector or ""
            consumer = _consumer(session, destination, target, subscriber, selector)
        except BaseException:
            jms_jvm.close_quietly(session)
            raise
        return cls(link, session, consumer)

    def receive(self, seconds: float) -> Any:
        """Return a JMS message, or None."""
        milliseconds = round(seconds * 1000)
        if milliseconds < SHORTEST_WAIT:
            return self.consumer.receiveNoWait()
        return self.consumer.receive(milliseconds)

    def acknowledge(self, message: Any) -> None:
        """Acknowledge the one message that is held."""
        if self.transacted:
            self.session.commit()
        else:
            message.acknowledge()

    def move(self, message: Any, queue: str) -> None:
        """Send the held message to a queue and acknowledge it; in one step if the session is transacted."""
        producer = self.session.createProducer(self.session.createQueue(queue))
        # Java's sum of now and a very long life overflows and is negative: such a message never expires.
        ends = int(message.getJMSExpiration())
        left = max(1, ends - time.time_ns() // 1_000_000) if ends > 0 else 0
        mode, priority = message.getJMSDeliveryMode(), message.getJMSPriority()
        producer.send(message, mode, priority, left)
        producer.close()
        self.acknowledge(message)

    def close(self) -> None:
        """Give back an unsettled message: the provider delivers it again, to any consumer."""
        jms_jvm.close_quietly(self.session)


@dataclass(eq=False, slots=True)
class WindowDelivery:
    """One delivery: the handle of what a receiver hands over. ``opaque``: we have no copy of its body."""

    window: Window
    message: Any
    message_id: str | None
    opaque: bool = False
    answered: bool = False
    due: float = 0.0


def _consumer(session: Any, destination: Any, target: Target, subscriber: str | None, selector: str) -> Any:
    """Open the consumer of a session."""
    if target.shared:
        name = "createSharedDurableConsumer" if target.durable else "createSharedConsumer"
        if not hasattr(session, name):
            raise ConfigurationError("shared", "needs a client of JMS 2.0 or later", "leave it out")
        return getattr(session, name)(destination, subscriber, selector)
    if subscriber is not None:
        return session.createDurableSubscriber(destination, subscriber, selector, _OWN_TOO)
    return session.createConsumer(destination, selector)
