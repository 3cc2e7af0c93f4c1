"""Amazon SQS: a queue is a destination, which all subscriptions share."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from math import ceil
from typing import Self, cast

from history.message import Message
from history.shell import Shell, TaskShell, ThreadShell
from triggers.providers.backlog import Backlog, Place
from triggers.providers.brokers.sending import dead_copy, is_later, named
from triggers.providers.provider import Arrival, DeliveryLimit, Received
from triggers.providers.sqs.codec import Delivered, encode, letter_of
from triggers.providers.sqs.link import SqsLink
from triggers.providers.sqs.receiver import SqsReceiver
from triggers.providers.sqs.sender import Outgoing, send
from triggers.providers.sqs.settings import SqsSettings, dead_letters_of


class Sqs:
    """Destinations in Amazon SQS, over boto3; blocking or asyncio, safe between threads.

    Tested against moto, never against AWS.

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

    async def _send(self, queue: str, messages: Sequence[Outgoing]) -> None:
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
        letters: list[Outgoing] = []
        for delivery in received:
            came = cast("Delivered", delivery.handle)
            if isinstance(delivery, Arrival):
                letter = encode(dead_copy(delivery.message, reason))
            else:
                letter = letter_of(came, reason)
            # FIFO queues deduplicate retries by this id, such as those after a crash.
            letters.append(Outgoing(letter, came.message_id, came.group, 0))
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
        found = {
            queue: await self._shell.call("doubtless-sqs-backlog", partial(self._backlog, queue))
            for queue in queues
        }
        return [found[destination] for destination, _ in places]

    def _backlog(self, destination: str) -> Backlog:
        counts = self._link.counts_of(self._settings.queue_of(destination))
        waiting, held, later = map(counts.get, ("waiting", "held", "later"))
        return Backlog(destination=destination, waiting=waiting, held=held, later=later)

    async def close(self) -> None:
        """Do nothing: boto3 keeps only connections, which end with it."""


def _outgoing(message: Message, now: datetime) -> Outgoing:
    delay = 0
    if is_later(message, now):
        due = cast("datetime", message.delivery_time)
        delay = ceil((due - now).total_seconds())
    return Outgoing(encode(message), message.message_id or "", message.group_id, delay)
