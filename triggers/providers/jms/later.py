"""Delayed messages: ActiveMQ's scheduler keeps them until they are due, where the broker's scheduler is on.

A broker whose scheduler is off takes ``AMQ_SCHEDULED_DELAY`` for any other property and delivers at once. So
each connection asks first: it sends a message with a delay to a temporary queue of its own. The scheduler
leaves its mark on what it delivers; without that mark nothing is delayed, and the sender is told so.

The scheduler counts from when it gets a message, and rounds up to the next half second. It adds to a
message's expiration what it has added to its timestamp, so a time to live counts from when it is due.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from history.errors import ConfigurationError
from history.message import Message
from triggers.providers.brokers.trust import ACTIVEMQ
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.codec import DELIVERY_TIME, JOB_ID, Sending
from triggers.providers.jms.link import JmsLink
from triggers.providers.provider import ProviderUnavailableError

#: The property that ActiveMQ's scheduler reads: for how many milliseconds it keeps a message.
DELAY: Final = "AMQ_SCHEDULED_DELAY"

#: How long a broker may take to deliver the message that asks whether it delays, in milliseconds.
PATIENCE: Final = 30_000

_EPOCH: Final = datetime.fromtimestamp(0, UTC)

_NOT_PERSISTENT, _NORMAL_PRIORITY, _FOR_EVER = 1, 4, 0


def delay_of(message: Message, now: datetime) -> int:
    """Return for how many milliseconds a message is to be kept; 0 for none, rounded up else."""
    due = message.delivery_time
    return 0 if due is None else max(0, -((now - due) // timedelta(milliseconds=1)))


def by_delay(messages: Sequence[Message], now: datetime) -> list[int]:
    """Return the positions of messages in the order in which they are to be sent.

    The broker rounds up when it gets a message, so what is due first must come first.
    """
    return sorted(range(len(messages)), key=lambda position: delay_of(messages[position], now))


def postpone(made: Sending, now: datetime, delay: int) -> Sending:
    """Have ActiveMQ keep a message for so many milliseconds from now on.

    Raises:
        ConfigurationError: it says that it was kept already, so that it would be delivered at once.
    """
    if made.message.propertyExists(JOB_ID):
        raise ConfigurationError(
            "delivery_time",
            f"ActiveMQ delays no message with the property {JOB_ID}",
            "leave that property out",
        )
    made.message.setLongProperty(DELAY, delay)
    made.message.setLongProperty(DELIVERY_TIME, (now - _EPOCH) // timedelta(milliseconds=1) + delay)
    left = made.time_to_live and max(1, made.time_to_live - delay)
    return made._replace(time_to_live=left)


def check_scheduler(link: JmsLink, connection: Any) -> None:
    """Return if the broker at the other end keeps a delayed message until it is due.

    Raises:
        ConfigurationError: it does not.
        ProviderUnavailableError: nobody knows; ask again.
    """
    if link.profile is not ACTIVEMQ:
        raise ConfigurationError(
            "delivery_time",
            "JMS 1.1 cannot delay a message, and this provider is not ActiveMQ, which can",
            "send it when it is due, or through another provider",
        )
    with link.asking("finding out whether it delays messages"):
        came = _sent_to_itself(link, connection)
        if came is None:
            raise ProviderUnavailableError("the JMS provider", "finding out whether it delays messages")
        if not came.propertyExists(JOB_ID):
            raise ConfigurationError(
                "delivery_time",
                "the scheduler of this ActiveMQ broker is off, so it would deliver a delayed message at once",
                'set schedulerSupport="true" on <broker> in its activemq.xml, or send when it is due',
            )


def _sent_to_itself(link: JmsLink, connection: Any) -> Any:
    """Send a message with a delay to a temporary queue, and return what arrives there, if anything."""
    session = link.session(connection, transacted=False)
    try:
        queue = session.createTemporaryQueue()
        consumer = session.createConsumer(queue)
        message = session.createMessage()
        message.setLongProperty(DELAY, 1)
        session.createProducer(queue).send(message, _NOT_PERSISTENT, _NORMAL_PRIORITY, _FOR_EVER)
        came = consumer.receive(PATIENCE)
        if came is not None:
            came.acknowledge()
        consumer.close()
        queue.delete()
        return came
    finally:
        jms_jvm.close_quietly(session)
