"""NATS JetStream: a subject is a destination, a durable pull consumer is a subscription.

A sending returns when the stream has each message; an error is never a guess.
"""

import json
from asyncio import Future
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self, cast
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import Message
from history.shell import Shell, TaskShell, ThreadShell
from history.support.paging import pieces_of
from triggers.providers.backlog import Backlog, Place
from triggers.providers.brokers.connection import LivingConnection
from triggers.providers.brokers.push_receiver import PushReceiver, PushToken
from triggers.providers.brokers.sending import is_later, letter_for, named
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.nats.codec import NatsDelivered, Published, encode, later, letter_of
from triggers.providers.nats.connection import NatsConnection, refusal
from triggers.providers.nats.consumer import NatsConsumer
from triggers.providers.nats.replies import NobodyError
from triggers.providers.nats.settings import NatsSettings, check_subject, dead_letters_of, later_of
from triggers.providers.nats.streams import backlogs_of, bind, limit_of, stream_of
from triggers.providers.provider import DeliveryLimit, ProviderUnavailableError, Received

#: Sends to a subject, on the connection's thread.
Publish = Callable[[NatsConnection, str, Sequence[Published], NatsSettings], Coroutine[Any, Any, None]]

#: A message, and its subject.
Addressed = tuple[str, Published]

#: How many messages are on their way at a time, at most.
CHUNK = 500

#: How long a stream may take to confirm some messages, in seconds.
PATIENCE = 20.0


async def publish(
    connection: NatsConnection, subject: str, messages: Sequence[Published], settings: NatsSettings
) -> None:
    """Send in order, and return when the subject's stream has all of them; a missing stream is made.

    This, and what it calls, runs on the connection's thread.

    Raises:
        ProviderUnavailableError: it is unknown which of them arrived.
        ConfigurationError: one of them can never be sent so.
    """
    for chunk in pieces_of(messages, CHUNK):
        await _look(connection, subject, settings)
        left = await _send(connection, [(subject, message) for message in chunk])
        if left:  # the stream was deleted after the check, so nobody took these
            connection.streamed.discard(subject)
            await _look(connection, subject, settings)
            if await _send(connection, left):
                raise ProviderUnavailableError("NATS", f"sending to {subject!r}: no stream takes it")


async def publish_later(
    connection: NatsConnection, subject: str, messages: Sequence[Published], settings: NatsSettings
) -> None:
    """Send messages that wait in the subject's stream until they are due; raises as :func:`publish`."""
    await _look(connection, subject, settings)
    prefix = later_of(subject).removesuffix("*")
    for chunk in pieces_of(messages, CHUNK):
        if await _send(connection, [(prefix + uuid4().hex, message) for message in chunk]):
            raise ConfigurationError(
                "delivery_time",
                f"the stream of {subject!r} keeps nothing until it is due",
                f"give it allow_msg_schedules and the subject {later_of(subject)} (NATS 2.12), "
                "or send the message when it is due",
            )


async def _look(connection: NatsConnection, subject: str, settings: NatsSettings) -> None:
    """Look for the stream once a connection: without one, another listener might answer for the subject."""
    if subject not in connection.streamed:
        await stream_of(connection, subject, settings)
        connection.streamed.add(subject)


async def _send(connection: NatsConnection, addressed: Sequence[Addressed]) -> list[Addressed]:
    """Send messages; return the ones without a stream."""
    answers = [
        await connection.replies.request(subject, message.payload, message.headers)
        for subject, message in addressed
    ]
    await connection.replies.wait(answers, PATIENCE)
    return [sent for sent, answer in zip(addressed, answers, strict=True) if not _is_stored(answer, sent[0])]


def _is_stored(answer: "Future[bytes]", subject: str) -> bool:
    """Whether a stream has the message of this answer; False if nobody has it."""
    error = answer.exception()
    if isinstance(error, NobodyError):
        return False
    if error is not None:
        raise error
    reply: dict[str, Any] = json.loads(answer.result())
    if (refused := reply.get("error")) is not None:
        doing = f"sending to {subject!r}"
        raise refusal(refused.get("err_code"), refused.get("description"), doing)
    return True


class Nats:
    """Destinations in NATS JetStream, over nats-py; blocking or asyncio, safe between threads.

    A destination ``orders`` is the subject of that name in the stream that has it. A subscription
    ``book-order`` is the durable pull consumer ``orders:book-order`` (or the one from the setting
    ``durable``). A missing stream is made, named like the subject. A missing consumer is made as well, and
    begins with the oldest message that the stream has (``start``). Dead letters of ``orders`` go to the
    subject ``DLQ.orders``, with the header ``dead-letter-reason``.

    A message is acknowledged by ``+ACK``, and its confirmation is checked with the next one. It is recovered
    by ``-NAK`` with a delay that the server waits for, and ended by ``+TERM`` when it has a dead letter.
    While a message is worked on, ``+WPI`` renews it three times in each ``ack_wait``.

    The delivery count is a lower bound: a server that is killed right after a delivery forgets it, so 1 reads
    as -1, and higher counts are believed. Consumers that are made here have ``max_deliver`` -1, because the
    trigger gives messages up. See ``docs/delivery-counts.md``.

    A message with a future delivery time waits in the stream, under a separate subject (``LATER.orders.*``),
    and the server sends it when it is due: NATS 2.12 or newer. When ``send`` returns, the stream has the
    messages. The uuid is not sent as ``Nats-Msg-Id``, so that no server drops what a trigger should see.

    There is one connection with its own thread. After a loss it connects again when it is next used.

    Args:
        url: hosts and account, see :class:`~triggers.providers.brokers.url.BrokerUrl`. A user without a
            password is a token.
        settings: see :class:`~triggers.providers.nats.settings.NatsSettings`.

    Guarantee: in doubt, or what the trigger's effects add to it (fenced, atomic). By itself: each
    subscription gets every message until it acknowledges it, as long as the stream keeps it: its limits
    delete what nobody has read.
    """

    def __init__(self, url: BrokerUrl, settings: NatsSettings, *, shell: Shell | None = None) -> None:
        self._url = url
        self._settings = settings
        self._shell = shell or ThreadShell()
        self._connection = LivingConnection(partial(NatsConnection, url, settings, self._shell))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make a provider for ``nats://user:password@host:4222``; it does not connect yet.

        Raises:
            ConfigurationError: the URL cannot be used.
        """
        settings, read = NatsSettings.from_url(url)
        return cls(read, settings)

    def for_asyncio(self) -> "Nats":
        """Return a provider of the same servers for an event loop; close it separately."""
        return Nats(self._url, self._settings, shell=TaskShell())

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages, wait until the stream has them, and return their JMSMessageIDs."""
        check_subject(destination, sending=True)
        messages = [named(message) for message in messages]
        now = datetime.now(UTC)  # one instant, so that a batch that becomes due during the send is not split
        at_once = [encode(message) for message in messages if not is_later(message, now)]
        waiting = [
            later(encode(message), message.delivery_time or now, destination)
            for message in messages
            if is_later(message, now)
        ]
        await self._publish(destination, at_once)
        await self._publish(destination, waiting, publish_later)
        return [message.message_id or "" for message in messages]

    async def _publish(self, subject: str, messages: Sequence[Published], publish: Publish = publish) -> None:
        if messages:
            connection = await self._connection.opened()
            work = partial(publish, connection, subject, messages, self._settings)
            await connection.do(f"sending to {subject!r}", work)

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> PushReceiver:  # noqa: ARG002  (JetStream does not name the members of a consumer)
        """Open a consumer; a missing stream or durable consumer is made."""
        check_subject(destination, sending=False)
        durable = self._settings.durable_of(destination, subscription)
        consumer = NatsConsumer(
            self._connection.opened,
            partial(bind, destination=destination, durable=durable, settings=self._settings),
            self._settings.count_of,
        )

        async def dead_letter(received: Sequence[Received], reason: str) -> None:
            await self._dead_letter(destination, received, reason)
            consumer.reject(received)

        receiver = PushReceiver(
            consumer,
            self._shell,
            dead_letter,
            name_of=_name_of,
            check_limits=consumer.check_limits,
            confirmed=consumer.confirmed,
            renew=consumer.renew,
        )
        await receiver.open()
        receiver.renew_every(consumer.renewal)
        return receiver

    async def _dead_letter(self, destination: str, received: Sequence[Received], reason: str) -> None:
        """Send copies to the dead letters' subject; wildcards become the words of the message's subject."""
        connection = await self._connection.opened()
        letters = dead_letters_of(destination)
        await connection.do(
            "making the stream of the dead letters", partial(stream_of, connection, letters, self._settings)
        )
        for delivery in received:
            came = cast("NatsDelivered", cast("PushToken", delivery.handle).tag)
            letter = letter_for(delivery, reason, encode, letter_of)
            await self._publish(dead_letters_of(came.subject), [letter])

    async def ping(self) -> None:
        """Return when the server answers.

        Raises:
            ProviderUnavailableError: it does not.
        """
        connection = await self._connection.opened()
        await connection.do("asking whether it is there", connection.native.flush)

    async def delivery_limit(self, destination: str, subscription: str) -> DeliveryLimit | None:
        """Return after how many deliveries the durable consumer gives a message up."""
        connection = await self._connection.opened()
        durable = self._settings.durable_of(destination, subscription)
        look = partial(limit_of, connection, destination, durable)
        return await connection.do(f"looking at the consumer {durable!r}", look)

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return what waits for the durable consumers of these places."""
        connection = await self._connection.opened()
        count = partial(backlogs_of, connection, places, self._settings)
        return await connection.do("counting what waits", count)

    async def close(self) -> None:
        """Close the connection. Close the receivers before."""
        await self._connection.close()


def _name_of(raw: object) -> str:
    return raw.name if isinstance(raw, NatsDelivered) else ""
