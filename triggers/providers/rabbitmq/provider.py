"""RabbitMQ over AMQP 0-9-1: a destination is an exchange, and each subscription has its own queue.

``consumer.py`` is one consumer, ``publisher.py`` sends, ``later.py`` has the queues of delayed messages,
``codec.py`` reads and writes messages, ``settings.py`` has settings and names, ``connection.py`` connects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import Message
from history.shell import Shell, TaskShell, ThreadShell
from triggers.providers.backlog import Backlog, Place
from triggers.providers.brokers.connection import LivingConnection
from triggers.providers.brokers.push_receiver import PushReceiver
from triggers.providers.brokers.sending import is_later, letter_for, named, refuse_later
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.provider import DeliveryLimit, Received
from triggers.providers.rabbitmq.codec import Origin, encode, letter_of
from triggers.providers.rabbitmq.connection import Channel, RabbitConnection
from triggers.providers.rabbitmq.consumer import RabbitmqConsumer
from triggers.providers.rabbitmq.later import DelaySlot, slots_of
from triggers.providers.rabbitmq.publisher import ConfirmingPublisher, Encoded
from triggers.providers.rabbitmq.settings import (
    QUEUE,
    TEMPORARY,
    RabbitmqSettings,
    address_of,
    arguments_of,
    dead_letters_of,
    queue_at,
    queue_of,
    refuse_stream,
    unknown_backlog,
)


class RabbitMQ:
    """Destinations in RabbitMQ, over pika; blocking or asyncio, safe between threads.

    A destination ``orders`` is a durable fanout exchange of that name, a subscription ``book-order`` the
    queue ``orders:book-order`` bound to it. The first consumer declares both. A message sent before that is
    refused: no queue would keep it. ``queue:NAME`` is a queue that exists already: it is consumed as it is,
    all subscriptions share it, and messages go straight to it. Dead letters of ``orders`` go to the
    destination ``DLQ.orders``, with the property ``dead-letter-reason``. RabbitMQ itself also sends there
    what a policy of the broker expels.

    Every message is persistent unless it says otherwise, mandatory and confirmed. A message with a future
    delivery time waits in a queue of its time (``doubtless.later.*``), and is late by at most a twentieth of
    its delay. A recovery with a delay keeps the delivery unsettled in the consumer for so long: the message
    is never copied, its count stays true, and it comes back sooner if the consumer ends.

    The delivery count of quorum queues is exact: every delivery counts, even of messages that were prefetched
    and never started. Classic queues keep only ``redelivered``: it is -1. See ``docs/delivery-counts.md``.

    One connection receives, and another sends. Each has its own thread, which sends heartbeats however long a
    service runs. After a loss each connects again when it is next used.

    Args:
        url: hosts and account, see :class:`~triggers.providers.brokers.url.BrokerUrl`.
        settings: see :class:`~triggers.providers.rabbitmq.settings.RabbitmqSettings`.

    Guarantee: in doubt, or what the trigger's effects add to it (fenced, atomic). By itself: each
    subscription gets every message until it acknowledges it. Nothing is lost while RabbitMQ keeps its data:
    quorum queues write to disk before they confirm.
    """

    def __init__(self, url: BrokerUrl, settings: RabbitmqSettings, *, shell: Shell | None = None) -> None:
        self._url = url
        self._settings = settings
        self._shell = shell or ThreadShell()
        self._receiving = LivingConnection(partial(RabbitConnection, url, self._shell))
        #: Sends use a separate connection: RabbitMQ stops reading from a sending connection while it is short
        #: of disk or memory. It would not read acknowledgements there, and its queues would not get shorter.
        self._sending = LivingConnection(self._connect_to_send)
        self._publishers: list[ConfirmingPublisher] = []

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make a provider for ``rabbitmq://user:password@host:5672/vhost``; it does not connect yet.

        Raises:
            ConfigurationError: the URL cannot be used.
        """
        settings, read = RabbitmqSettings.from_url(url)
        return cls(read, settings)

    def for_asyncio(self) -> "RabbitMQ":
        """Return a provider of the same broker for an event loop; close it separately."""
        return RabbitMQ(self._url, self._settings, shell=TaskShell())

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Publish messages, confirmed, and return their JMSMessageIDs."""
        messages = [named(message) for message in messages]
        now = datetime.now(UTC)  # one instant, so that a batch that becomes due during the send is not split
        at_once = [message for message in messages if not is_later(message, now)]
        await self._publish(destination, [encode(message) for message in at_once])
        if len(at_once) < len(messages):
            await self._publish_later(
                destination, [message for message in messages if is_later(message, now)], now
            )
        return [message.message_id or "" for message in messages]

    async def _publish_later(self, destination: str, messages: Sequence[Message], now: datetime) -> None:
        """Publish messages into the queues of their slots, which are declared first."""
        if destination.startswith(TEMPORARY):
            refuse_later(messages)
        slots = slots_of(messages, now)
        channel = await (await self._connected_to_send()).channel(lambda _: None)
        try:
            await _look_for_target(destination, channel)
            for slot, waiting in slots.items():
                queue = await self._declare_slot(destination, slot, channel)
                encoded = [encode(message) for message in waiting]
                for basic, _ in encoded:
                    basic.properties["expiration"] = str(slot.time_to_live(now))
                await self._publish(QUEUE + queue, encoded)
        finally:
            await channel.close()

    async def _declare_slot(self, destination: str, slot: DelaySlot, channel: Channel) -> str:
        queue = slot.queue(destination)
        arguments = slot.arguments(*address_of(destination), quorum=self._settings.queue_type != "classic")
        doing = f"declaring a queue for what is sent to {destination} later"
        await channel.ask(doing, "queue_declare", queue=queue, durable=True, arguments=arguments)
        return queue

    async def _publish(self, destination: str, messages: Sequence[Encoded]) -> None:
        if not messages:
            return
        exchange, key = address_of(destination)
        publisher = await self._publisher()
        try:
            await publisher.publish(exchange, key, messages)
        except BaseException:
            publisher.close_soon()  # nobody waits for what comes back on it any more
            raise
        self._publishers.append(publisher)

    async def _publisher(self) -> ConfirmingPublisher:
        connection = await self._connected_to_send()
        while self._publishers:
            publisher = self._publishers.pop()
            if publisher.usable:
                return publisher
        publisher = ConfirmingPublisher()
        await publisher.open(connection)
        return publisher

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> PushReceiver:
        """Open a consumer; a missing exchange or queue is declared."""
        queue_type = self._settings.queue_type
        plain = destination.startswith(QUEUE)
        quorum = None if plain and queue_type is None else queue_type != "classic"
        declare = (
            partial(_look_for_queue, destination)
            if plain
            else partial(_declare, destination, subscription, quorum=bool(quorum))
        )
        origin = Origin(destination=destination, quorum=quorum, first_count=self._settings.first_count)
        return await self._receive(declare, origin, name)

    async def open_temporary(self, purpose: str) -> tuple[str, PushReceiver]:
        """Open the only consumer of a new queue, which ends with the consumer or its connection."""
        queue = f"{TEMPORARY}{purpose}.{uuid4().hex}"
        origin = Origin(destination=queue, quorum=False, first_count=self._settings.first_count)
        return queue, await self._receive(partial(_declare_temporary, queue), origin, "owner")

    async def _receive(self, declare: Any, origin: Origin, name: str) -> PushReceiver:
        dead_letter = partial(self._dead_letter, dead_letters_of(origin.destination))
        consumer = RabbitmqConsumer(self._receiving.opened, declare, origin=origin, name=name)
        receiver = PushReceiver(consumer, self._shell, dead_letter)
        await receiver.open()
        return receiver

    async def _dead_letter(self, destination: str, received: Sequence[Received], reason: str) -> None:
        """Publish copies to a destination with its own queue, so that nobody need have subscribed."""
        channel = await (await self._connected_to_send()).channel(lambda _: None)
        await _declare(destination, "letters", channel, quorum=self._settings.queue_type != "classic")
        await channel.close()
        letters = [letter_for(delivery, reason, encode, letter_of) for delivery in received]
        await self._publish(destination, letters)

    async def _connected_to_send(self) -> RabbitConnection:
        connection = await self._sending.opened()
        connection.check_takes_messages()
        return connection

    def _connect_to_send(self) -> RabbitConnection:
        self._publishers = []
        return RabbitConnection(self._url, self._shell)

    async def ping(self) -> None:
        """Return when the broker answers.

        Raises:
            ProviderUnavailableError: it does not.
        """
        channel = await (await self._receiving.opened()).channel(lambda _: None)
        await channel.close()

    async def delivery_limit(self, destination: str, subscription: str) -> DeliveryLimit | None:
        """Return after how many deliveries the queue of a subscription gives a message up.

        Raises:
            ProviderUnavailableError: RabbitMQ does not answer.
        """
        from triggers.providers.rabbitmq.limits import limit_of_queue  # noqa: PLC0415  (no consumer asks)

        connection = await self._receiving.opened()
        declare = partial(_declare_otherwise, connection, queue_at(destination, subscription))
        return await limit_of_queue(declare, _major(connection))

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return what waits in the queues of these places; RabbitMQ does not report what is held."""
        return [await self._backlog(*pair) for pair in places]

    async def _backlog(self, destination: str, subscription: str) -> Backlog:
        queue, unknown = queue_at(destination, subscription), unknown_backlog(destination, subscription)
        # Open a channel for each: it ends if the queue does not exist.
        channel = await (await self._receiving.opened()).channel(lambda _: None)
        try:
            declared = await channel.ask("counting what waits", "queue_declare", queue=queue, passive=True)
        except ConfigurationError:
            return unknown
        await channel.close()
        return replace(
            unknown, waiting=declared.method.message_count, consumers=declared.method.consumer_count
        )

    async def close(self) -> None:
        """Close the connections. Close the receivers before."""
        self._publishers = []
        await self._sending.close()
        await self._receiving.close()


async def _look_for_target(destination: str, channel: Channel) -> None:
    """Refuse a destination that nobody has declared: it would lose waiting messages when they are due."""
    if destination.startswith(QUEUE):
        await _look_for(destination, channel)
    else:
        await channel.ask(
            f"sending to {destination} later", "exchange_declare", exchange=destination, passive=True
        )


async def _look_for(destination: str, channel: Channel) -> str:
    queue = destination.removeprefix(QUEUE)
    await channel.ask(f"consuming from {destination}", "queue_declare", queue=queue, passive=True)
    return queue


async def _look_for_queue(destination: str, channel: Channel) -> str:
    """Look for a queue that somebody else has declared, and refuse a stream."""
    from triggers.providers.rabbitmq.limits import kind_of_queue  # noqa: PLC0415  (few consumers ask)

    queue = await _look_for(destination, channel)
    refuse_stream(queue, await kind_of_queue(partial(_declare_otherwise, channel.connection, queue)))
    return queue


async def _declare_otherwise(
    connection: RabbitConnection, queue: str, arguments: Mapping[str, object]
) -> None:
    """Declare a queue with arguments that it does not have: RabbitMQ refuses, and names the first of them."""
    # Open a channel for each: it ends if RabbitMQ refuses.
    channel = await connection.channel(lambda _: None)
    options = {"queue": queue, "durable": True, "arguments": arguments}
    await channel.ask("asking how it is declared", "queue_declare", **options)
    await channel.close()


async def _declare_temporary(queue: str, channel: Channel) -> str:
    await channel.ask("making a temporary queue", "queue_declare", queue=queue, exclusive=True)
    return queue


async def _declare(destination: str, subscription: str, channel: Channel, *, quorum: bool) -> str:
    """Declare exchange, queue and binding; doing it again is harmless."""
    doing, queue = f"declaring {destination}", queue_of(destination, subscription)
    arguments = arguments_of(destination, quorum=quorum, version=_major(channel.connection))
    await channel.ask(doing, "exchange_declare", exchange=destination, exchange_type="fanout", durable=True)
    await channel.ask(doing, "queue_declare", queue=queue, durable=True, arguments=arguments)
    await channel.ask(doing, "queue_bind", queue=queue, exchange=destination)
    return queue


def _major(connection: RabbitConnection) -> int:
    version = connection.server.get("version", "0")
    text = version.decode() if isinstance(version, bytes) else str(version)
    return int(text.partition(".")[0])
