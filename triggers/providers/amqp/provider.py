"""AMQP 1.0: any broker's addresses, and RabbitMQ 4 with exchanges and queues that are declared for you."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self
from uuid import uuid4

from history.errors import ConfigurationError, NotPermittedError
from history.message import Message
from history.shell import Shell, TaskShell, ThreadShell
from history.support.paging import pieces_of
from triggers.providers.amqp.codec import AmqpOrigin, encode, encode_unreadable
from triggers.providers.amqp.connection import AmqpConnection
from triggers.providers.amqp.consumer import AmqpConsumer, AttachPoint, Declare
from triggers.providers.amqp.links import SenderLink
from triggers.providers.amqp.management import Management, exchange_address, queue_address
from triggers.providers.backlog import Backlog, Place
from triggers.providers.brokers.connection import LivingConnection
from triggers.providers.brokers.push_receiver import PushReceiver
from triggers.providers.brokers.sending import is_later, letter_for, named, no_delays
from triggers.providers.brokers.trust import AMQP_CLASSIC, AMQP_QUORUM, OTHER_AMQP, FirstCount, TrustProfile
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.provider import DeliveryLimit, Received
from triggers.providers.rabbitmq.later import DelaySlot, slots_of
from triggers.providers.rabbitmq.settings import (
    QUEUE,
    TEMPORARY,
    address_of,
    arguments_of,
    dead_letters_of,
    queue_at,
    queue_of,
    refuse_stream,
    unknown_backlog,
)

_EXAMPLE = "amqp://user:password@host:5672"

#: How many messages are on their way at a time, at most.
CHUNK = 500

#: The kinds of RabbitMQ's queues, and the worth of their counts.
_PROFILES = {"quorum": AMQP_QUORUM, "classic": AMQP_CLASSIC}


class Amqp:
    """Destinations behind AMQP 1.0, over Qpid Proton; blocking or asyncio, safe between threads.

    On RabbitMQ 4 a destination ``orders`` is a durable fanout exchange of that name. A subscription
    ``book-order`` is the quorum queue ``orders:book-order`` bound to it. The first consumer declares both.
    ``queue:NAME`` is a queue that exists already. The provider over AMQP 0-9-1 uses the same names, so both
    may run side by side. On any other broker a destination is an address, as it is, and the broker decides
    who gets what is sent there.

    Every message is sent durable unless it says otherwise. A message that the broker does not accept is an
    error. A message with a future delivery time waits in a queue that nobody consumes, as over AMQP 0-9-1,
    see :mod:`triggers.providers.rabbitmq.later`. Another broker than RabbitMQ would deliver it immediately,
    so it is refused there. Dead letters of ``orders`` go to ``DLQ.orders``, with the property
    ``dead-letter-reason``. A recovery is "modified, delivery failed"; one with a delay keeps the delivery
    unsettled in the consumer for so long.

    JMSXDeliveryCount is the header's delivery-count + 1. On RabbitMQ it is a lower bound, because a message
    that was released is not counted, but marked as redelivered. A classic queue's is -1. See
    ``docs/delivery-counts.md``; on a broker that nobody measured a count of 1 is -1.

    Args:
        url: hosts and account, see :class:`~triggers.providers.brokers.url.BrokerUrl`; a path is RabbitMQ's
            virtual host.
        first_count: see :class:`~triggers.providers.brokers.trust.FirstCount`.

    Guarantee: in doubt, or what the trigger's effects add to it (fenced, atomic). By itself: each
    subscription gets every message until it is accepted. Nothing is lost while the broker keeps its data.
    """

    def __init__(
        self, url: BrokerUrl, first_count: FirstCount = FirstCount.WEIGHED, *, shell: Shell | None = None
    ) -> None:
        self._url = url
        self._first_count = first_count
        self._shell = shell or ThreadShell()
        self._connection = LivingConnection(self._connect)
        self._management: Management | None = None
        self._senders: dict[str, list[SenderLink]] = {}

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make a provider for ``amqp://user:password@host:5672``; it does not connect yet.

        Raises:
            ConfigurationError: the URL cannot be used.
        """
        read = BrokerUrl.read(url, example=_EXAMPLE, ports=(5672, 5671), known={"first_count"})
        return cls(read, FirstCount.read(read.options.get("first_count", FirstCount.WEIGHED)))

    def for_asyncio(self) -> "Amqp":
        """Return a provider of the same broker for an event loop; close it separately."""
        return Amqp(self._url, self._first_count, shell=TaskShell())

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages and return their JMSMessageIDs, when the broker has accepted all of them."""
        messages = [named(message) for message in messages]
        now = datetime.now(UTC)  # one instant, so that a batch that becomes due during the send is not split
        later = [message for message in messages if is_later(message, now)]
        if later:
            await self._look_for_delays(destination)
        slots = slots_of(later, now)  # before anything is sent: one may be too far ahead
        await self._send(destination, [encode(message) for message in messages if not is_later(message, now)])
        for slot, waiting in slots.items():
            encoded = [encode(message, slot.time_to_live(now)) for message in waiting]
            await self._send_to_slot(destination, slot, encoded)
        return [message.message_id or "" for message in messages]

    async def _look_for_delays(self, destination: str) -> None:
        """Refuse a broker without delays, and a destination that would lose messages when they are due."""
        connection = await self._connection.opened()
        if not connection.is_rabbitmq or destination.startswith(TEMPORARY):
            raise no_delays()
        self._keep(await self._sender(connection, _address(destination, connection)))

    async def _send_to_slot(self, destination: str, slot: DelaySlot, messages: Sequence[bytes]) -> None:
        """Send to the queue of one delivery time; the provider over AMQP 0-9-1 declares it alike."""
        connection = await self._connection.opened()
        queue = slot.queue(destination)
        management = await self._managed(connection)
        await management.declare_queue(queue, slot.arguments(*address_of(destination), quorum=True))
        sender = await self._sender(connection, queue_address(queue))
        await _send_all(sender, destination, messages)
        # Each slot has its own queue, and a connection allows only some dozens of links.
        await sender.close()

    async def _send(self, destination: str, messages: Sequence[bytes]) -> None:
        if not messages:
            return
        connection = await self._connection.opened()
        sender = await self._sender(connection, _address(destination, connection))
        await _send_all(sender, destination, messages)
        self._keep(sender)

    def _keep(self, sender: SenderLink) -> None:
        self._senders.setdefault(sender.address, []).append(sender)

    async def _sender(self, connection: AmqpConnection, address: str) -> SenderLink:
        idle = self._senders.get(address, [])
        while idle:
            sender = idle.pop()
            if not sender.closed and sender.connection is connection:
                return sender
        sender = SenderLink(connection, address, lambda _: None)
        await connection.link(sender)
        return sender

    async def open_receiver(
        self,
        destination: str,
        *,
        subscription: str,
        name: str,  # noqa: ARG002  (consumers have no names here)
    ) -> PushReceiver:
        """Open a consumer; on RabbitMQ a missing exchange or queue is declared."""
        return await self._receive(partial(self._declare, destination, subscription), destination)

    async def open_temporary(self, purpose: str) -> tuple[str, PushReceiver]:
        """Open the only consumer of a new queue of RabbitMQ, which ends with the connection.

        Raises:
            ConfigurationError: the broker is another one.
        """
        queue = f"{TEMPORARY}{purpose}.{uuid4().hex}"
        return queue, await self._receive(partial(self._declare_temporary, queue), queue)

    async def _receive(self, declare: Declare, destination: str) -> PushReceiver:
        dead_letter = partial(self._dead_letter, dead_letters_of(destination))
        receiver = PushReceiver(AmqpConsumer(self._connection.opened, declare), self._shell, dead_letter)
        await receiver.open()
        return receiver

    async def _declare(self, destination: str, subscription: str, connection: AmqpConnection) -> AttachPoint:
        if not connection.is_rabbitmq:
            return AttachPoint(destination.removeprefix(QUEUE), self._origin(destination, OTHER_AMQP))
        management = await self._managed(connection)
        if destination.startswith(QUEUE):
            queue = destination.removeprefix(QUEUE)
            queue_type = await management.queue_type(queue)
            refuse_stream(queue, queue_type)
            profile = _PROFILES.get(queue_type, OTHER_AMQP)
            return AttachPoint(queue_address(queue), self._origin(destination, profile))
        queue = queue_of(destination, subscription)
        await management.declare_fanout(destination)
        await management.declare_queue(queue, arguments_of(destination, quorum=True, version=4))
        await management.bind(destination, queue)
        return AttachPoint(queue_address(queue), self._origin(destination, AMQP_QUORUM))

    async def _declare_temporary(self, queue: str, connection: AmqpConnection) -> AttachPoint:
        if not connection.is_rabbitmq:
            raise ConfigurationError(
                "reply_to", "this broker has no temporary queues that doubtless can use", "use RabbitMQ 4"
            )
        management = await self._managed(connection)
        await management.declare_queue(queue, {"x-queue-type": "classic"}, exclusive=True)
        return AttachPoint(queue_address(queue), self._origin(queue, AMQP_CLASSIC))

    def _origin(self, destination: str, profile: TrustProfile) -> AmqpOrigin:
        return AmqpOrigin(destination=destination, profile=profile, first_count=self._first_count)

    async def _dead_letter(self, destination: str, received: Sequence[Received], reason: str) -> None:
        """Send copies to a destination with its own queue, so that nobody need have subscribed."""
        connection = await self._connection.opened()
        if connection.is_rabbitmq:
            await self._declare(destination, "letters", connection)
        letters = [letter_for(delivery, reason, encode, encode_unreadable) for delivery in received]
        await self._send(destination, letters)

    async def _managed(self, connection: AmqpConnection) -> Management:
        if (
            self._management is None
            or self._management.closed
            or self._management.connection is not connection
        ):
            management = Management(connection)
            await connection.link(management)
            self._management = management
        return self._management

    def _connect(self) -> AmqpConnection:
        self._senders = {}
        return AmqpConnection(self._url, self._shell)

    async def ping(self) -> None:
        """Return when the broker answers.

        Raises:
            ProviderUnavailableError: it does not.
        """
        connection = await self._connection.opened()
        if connection.is_rabbitmq:
            management = Management(connection)
            await connection.link(management)
            await management.close()

    async def delivery_limit(self, destination: str, subscription: str) -> DeliveryLimit | None:
        """Return after how many deliveries the queue of a subscription gives a message up.

        Raises:
            ProviderUnavailableError: the broker does not answer.
        """
        from triggers.providers.rabbitmq.limits import limit_of, unseen  # noqa: PLC0415  (no consumer asks)

        connection = await self._connection.opened()
        if not connection.is_rabbitmq:
            return unseen("this broker does not tell over AMQP 1.0; ActiveMQ Artemis has a limit of 10")
        management = await self._managed(connection)
        try:
            arguments = await management.queue_arguments(queue_at(destination, subscription))
        except NotPermittedError:
            return unseen("its account may not look at the queue")
        except ConfigurationError:  # the queue does not exist yet
            return None
        return limit_of(arguments, 4)

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return what waits in the queues of these places.

        RabbitMQ does not report what is held; other brokers report nothing over AMQP 1.0.
        """
        connection = await self._connection.opened()
        return [await self._backlog(connection, *pair) for pair in places]

    async def _backlog(self, connection: AmqpConnection, destination: str, subscription: str) -> Backlog:
        unknown = unknown_backlog(destination, subscription)
        if not connection.is_rabbitmq:
            return unknown
        management = await self._managed(connection)
        try:
            waiting, consumers = await management.counts_of(queue_at(destination, subscription))
        except ConfigurationError:  # the queue does not exist
            return unknown
        return replace(unknown, waiting=waiting, consumers=consumers)

    async def close(self) -> None:
        """Close the connection. Close the receivers before."""
        self._senders, self._management = {}, None
        await self._connection.close()


def _address(destination: str, connection: AmqpConnection) -> str:
    if not connection.is_rabbitmq:
        return destination.removeprefix(QUEUE)
    if destination.startswith((QUEUE, TEMPORARY)):
        return queue_address(destination.removeprefix(QUEUE))
    return exchange_address(destination)


async def _send_all(sender: SenderLink, destination: str, messages: Sequence[bytes]) -> None:
    try:
        for chunk in pieces_of(messages, CHUNK):
            await sender.ask(f"sending to {destination}", partial(_send_chunk, sender, chunk))
    except BaseException:
        sender.close_soon()  # nobody waits for what comes back on it any more
        raise


def _send_chunk(sender: SenderLink, chunk: Sequence[bytes], future: Any) -> None:
    sender.send(future, chunk)
