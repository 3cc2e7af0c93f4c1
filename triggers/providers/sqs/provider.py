"""Amazon SQS: a queue is a destination, which all subscriptions share."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import ceil
from typing import Any, Self, cast
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import Message
from history.shell import Shell, TaskShell, ThreadShell
from triggers.providers.backlog import Backlog, Place
from triggers.providers.brokers.sending import dead_copy, is_later, named
from triggers.providers.provider import Arrival, DeliveryLimit, ProviderUnavailableError, Received
from triggers.providers.sqs.codec import Sent, SqsDelivered, encode, letter_of
from triggers.providers.sqs.link import (
    LARGEST,
    LARGEST_TOGETHER,
    MOST,
    QueueGoneError,
    SqsLink,
    failed_of,
)
from triggers.providers.sqs.receiver import SqsReceiver
from triggers.providers.sqs.settings import FIFO, SqsSettings, dead_letters_of

#: For how many seconds SQS delays a message, at most.
LONGEST_DELAY = 900

#: In a FIFO queue, the group of messages that name none: all of these keep their order.
NO_GROUP = "none"


@dataclass(frozen=True, slots=True)
class SqsOutgoing:
    """A message for a queue; ``delay`` is in seconds.

    A FIFO queue drops a message if it got the same ``once`` within the last five minutes.
    """

    sent: Sent
    once: str
    group: str | None
    delay: int


def send(link: SqsLink, queue: str, messages: Sequence[SqsOutgoing]) -> None:
    """Send in order.

    Raises:
        ProviderUnavailableError: it is unknown which of them arrived.
        ConfigurationError: one of them can never be sent so.
    """
    for message in messages:
        _check(queue, message)
    for chunk in _chunks(messages):
        try:
            _send(link, queue, chunk)
        except QueueGoneError:  # SQS took none of them
            link.forget(queue)
            _send(link, queue, chunk)


def _check(queue: str, message: SqsOutgoing) -> None:
    if message.sent.size > LARGEST:
        problem = f"it has {message.sent.size} bytes, and SQS takes {LARGEST}"
        raise ConfigurationError("message", problem, "send less, or a reference to it")
    if message.delay > LONGEST_DELAY:
        problem = f"is {message.delay} seconds ahead, and SQS delays for {LONGEST_DELAY} at most"
        raise ConfigurationError("delivery_time", problem, "send it later, or use Redis Streams")
    if message.delay and queue.endswith(FIFO):
        problem = "a FIFO queue of SQS delays no single message"
        raise ConfigurationError("delivery_time", problem, "send it when it is due, or to a standard queue")


def _chunks(messages: Sequence[SqsOutgoing]) -> list[list[SqsOutgoing]]:
    chunks: list[list[SqsOutgoing]] = []
    size = 0
    for message in messages:
        size += message.sent.size
        if not chunks or len(chunks[-1]) == MOST or size > LARGEST_TOGETHER:
            chunks.append([])
            size = message.sent.size
        chunks[-1].append(message)
    return chunks


def _send(link: SqsLink, queue: str, chunk: Sequence[SqsOutgoing]) -> None:
    doing = f"sending to {queue!r}"
    entries = [_entry(queue, str(number), message) for number, message in enumerate(chunk)]
    address = link.address_of(queue)
    for failed in failed_of(link.call(doing, "send_message_batch", QueueUrl=address, Entries=entries)):
        problem = f"{failed.get('Message', '')} ({failed.get('Code', '')})"
        if failed.get("SenderFault"):
            raise ConfigurationError("message", f"SQS refuses it: {problem}", "correct it")
        raise ProviderUnavailableError("SQS", f"{doing}: {problem}")


def _entry(queue: str, number: str, message: SqsOutgoing) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Id": number,
        "MessageBody": message.sent.body,
        "MessageAttributes": dict(message.sent.attributes),
    }
    if queue.endswith(FIFO):
        entry |= {"MessageGroupId": message.group or NO_GROUP, "MessageDeduplicationId": message.once}
    elif message.delay:
        entry["DelaySeconds"] = message.delay
    return entry


class Sqs:
    """Destinations in Amazon SQS, over boto3; blocking or asyncio, safe between threads.

    Tested against moto and ElasticMQ, never against AWS.

    A destination ``orders`` is the queue of that name; a missing queue is made. SQS has no subscriptions: all
    triggers of a queue share its messages. The account comes from the usual places of AWS: environment,
    profile, role. Dead letters of ``orders`` that we write go to the queue ``DLQ-orders``, with the property
    ``dead-letter-reason``; a redrive policy of the queue is left to you.

    SQS only guesses how often a message was delivered: JMSXDeliveryCount is -1, so every message is looked up
    in the document history. But if the guess is above ``max_delivery_count``, the message is given up.

    While a consumer holds a message, it is hidden from other consumers; the running consumer renews this. A
    recovery with a delay, and a message with a future delivery time, wait at SQS: twelve hours and fifteen
    minutes at most. A queue with a name that ends with ``.fifo`` keeps the order of each JMSXGroupID, and
    that of all messages without one.

    Args:
        settings: see :class:`~triggers.providers.sqs.settings.SqsSettings`.

    Guarantee: in doubt, or what the trigger's effects add to it (fenced, atomic). By itself: a message is
    delivered until it is acknowledged, as long as the queue keeps it: 14 days at most.
    """

    def __init__(self, settings: SqsSettings, *, shell: Shell | None = None) -> None:
        self._settings = settings
        self._shell = shell or ThreadShell()
        self._link = SqsLink(settings)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make a provider for ``sqs://eu-west-1`` or ``sqs://eu-west-1/orders``; it does not connect yet.

        Raises:
            ConfigurationError: the URL cannot be used.
        """
        return cls(SqsSettings.from_url(url))

    def for_asyncio(self) -> "Sqs":
        """Return a provider of the same queues for an event loop, which continues while boto3 waits."""
        return Sqs(self._settings, shell=TaskShell())

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages, and return their JMSMessageIDs."""
        queue = self._settings.queue_of(destination)
        messages = [named(message) for message in messages]
        now = datetime.now(UTC)
        await self._send(queue, [_outgoing(message, now) for message in messages])
        return [message.message_id or "" for message in messages]

    async def _send(self, queue: str, messages: Sequence[SqsOutgoing]) -> None:
        if messages:
            await self._shell.call("doubtless-sqs-send", partial(send, self._link, queue, messages))

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> SqsReceiver:  # noqa: ARG002  (SQS has neither)
        """Open a consumer; a missing queue is made."""
        queue = self._settings.queue_of(destination)
        receiver = SqsReceiver(
            self._link,
            queue,
            partial(self._dead_letter, dead_letters_of(queue)),
            self._shell,
            visibility=self._settings.visibility,
        )
        await receiver.open()
        return receiver

    async def _dead_letter(self, queue: str, received: Sequence[Received], reason: str) -> None:
        letters: list[SqsOutgoing] = []
        for delivery in received:
            came = cast("SqsDelivered", delivery.handle)
            if isinstance(delivery, Arrival):
                letter = encode(dead_copy(delivery.message, reason))
            else:
                letter = letter_of(came, reason)
            # FIFO queues deduplicate retries by this id, such as those after a crash.
            letters.append(SqsOutgoing(letter, came.message_id, came.group, 0))
        await self._send(queue, letters)

    async def ping(self) -> None:
        """Return when SQS answers.

        Raises:
            ProviderUnavailableError: it does not.
        """
        await self._shell.call("doubtless-sqs-ping", self._link.ping)

    async def delivery_limit(self, destination: str, subscription: str) -> DeliveryLimit | None:  # noqa: ARG002  (SQS has none)
        """Return after how many deliveries the queue's redrive policy removes a message."""
        queue = self._settings.queue_of(destination)
        return await self._shell.call("doubtless-sqs-limit", partial(self._link.limit_of, queue))

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return about what waits in the queues of these places: SQS counts from time to time."""
        queues = dict.fromkeys(destination for destination, _ in places)
        by_destination = {
            queue: await self._shell.call("doubtless-sqs-backlog", partial(self._backlog, queue))
            for queue in queues
        }
        return [by_destination[destination] for destination, _ in places]

    def _backlog(self, destination: str) -> Backlog:
        counts = self._link.counts_of(self._settings.queue_of(destination))
        waiting, in_flight, later = map(counts.get, ("waiting", "held", "later"))
        return Backlog(destination=destination, waiting=waiting, held=in_flight, later=later)

    async def close(self) -> None:
        """Do nothing: boto3 keeps only connections, which end with it."""


def _outgoing(message: Message, now: datetime) -> SqsOutgoing:
    delay = 0
    if is_later(message, now):
        due = cast("datetime", message.delivery_time)
        delay = ceil((due - now).total_seconds())
    # New each time: only boto3, which repeats a request by itself, must not store it twice. The history
    # judges what is sent again on purpose. Not the JMSMessageID, because copies of a message share it.
    return SqsOutgoing(encode(message), uuid4().hex, message.group_id, delay)
