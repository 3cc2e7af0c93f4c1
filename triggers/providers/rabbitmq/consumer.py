"""One consumer of a RabbitMQ queue, as a wire of a :mod:`~triggers.providers.brokers.push_receiver`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, cast

from history.message import Message
from triggers.providers.brokers.push_receiver import Inbox, PushToken
from triggers.providers.provider import AT_ONCE, Limits, ProviderUnavailableError
from triggers.providers.rabbitmq.codec import Origin, decode, raw_fields
from triggers.providers.rabbitmq.connection import Channel, RabbitConnection
from triggers.providers.rabbitmq.frames import unpacked


@dataclass(frozen=True, slots=True)
class Pushed:
    """A delivery as it came, with its properties encoded."""

    redelivered: bool
    properties: bytes
    body: bytes


#: Declares what a consumer needs and returns its queue's name.
Declare = Callable[[Channel], Awaitable[str]]


class RabbitmqConsumer:
    """A channel with at most one active consumer, which has exactly the requested window.

    RabbitMQ counts a window (``basic.qos``) by consumer. So a new window needs a new consumer, and the old
    one is cancelled: its deliveries must still be settled, and no longer count.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[RabbitConnection]],
        declare: Declare,
        *,
        origin: Origin,
        name: str,
    ) -> None:
        self._connect = connect
        self._declare = declare
        self._origin = origin
        self._name = name
        self._numbers = count(1)
        self._channel: Channel | None = None
        self._queue = ""
        self._inbox = Inbox()
        self._tag: str | None = None
        self._window = 0
        # The tags of the present consumer's unsettled deliveries.
        self._counted: set[int] = set()

    async def open(self, inbox: Inbox) -> None:
        """Open a channel and declare what is needed; the previous channel gives back what it still has."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close_soon()
        self._inbox, self._tag, self._window = inbox, None, 0
        self._counted = set()
        connection = await self._connect()
        channel = await connection.channel(partial(inbox.lose_connection, "RabbitMQ"))
        self._channel = channel  # from here on, the next open() or close() ends it
        self._queue = await self._declare(channel)
        channel.tell(lambda pika: pika.add_on_cancel_callback(partial(_cancelled, inbox)))

    async def want(self, count: int) -> None:
        """Begin a consumer with this window, less what has come already; unless the present one has it."""
        inbox = self._inbox
        if self._tag is not None and self._window - len(self._counted) + inbox.size == count:
            return
        await self.stop()
        count -= inbox.size
        if count < 1:
            return
        channel = self._opened()
        tag = f"{self._name}#{next(self._numbers)}"
        counted: set[int] = set()

        def deliver(_: Any, method: Any, properties: Any, body: bytes) -> None:
            counted.add(method.delivery_tag)
            inbox.push(PushToken(method.delivery_tag), Pushed(method.redelivered, unpacked(properties), body))

        if self._window != count:
            await channel.ask("setting the prefetch", "basic_qos", prefetch_count=count)
        self._tag, self._window, self._counted = tag, count, counted
        await channel.ask(
            "consuming", "basic_consume", queue=self._queue, on_message_callback=deliver, consumer_tag=tag
        )

    async def stop(self) -> None:
        """Cancel the consumer; everything that was sent to it before arrives before this returns."""
        tag, self._tag = self._tag, None
        if tag is not None:
            await self._opened().ask("cancelling", "basic_cancel", consumer_tag=tag)

    def stop_soon(self) -> None:
        """Cancel the consumer, and do not wait for the answer."""
        tag, self._tag = self._tag, None
        if tag is not None:
            self._opened().tell(lambda pika: pika.basic_cancel(consumer_tag=tag))

    def accept(self, tokens: Sequence[PushToken]) -> None:
        """Acknowledge, all in one go."""
        tags = self._answered(tokens)

        def acknowledge(pika: Any) -> None:
            for tag in tags:
                pika.basic_ack(tag)

        self._opened().tell(acknowledge)

    def give_back(self, tokens: Sequence[PushToken], delay: timedelta) -> None:
        """Requeue, now or when the delay has passed."""
        channel = self._opened()

        def requeue(pika: Any) -> None:
            for tag in self._answered(tokens):
                pika.basic_nack(tag, requeue=True)

        if delay <= AT_ONCE:
            channel.tell(requeue)
        else:  # until then it uses a place of the window
            later = partial(_unless_closed, channel, requeue)
            channel.connection.call_later(delay.total_seconds(), later)

    def release(self, tokens: Sequence[PushToken]) -> None:
        """Requeue, which counts: AMQP 0-9-1 has no other way."""
        self.give_back(tokens, AT_ONCE)

    def _answered(self, tokens: Sequence[PushToken]) -> list[int]:
        tags = [cast("int", token.tag) for token in tokens]
        self._counted.difference_update(tags)
        return tags

    def decode(self, raw: Any, limits: Limits) -> Message:
        """Read a delivery."""
        pushed = cast("Pushed", raw)
        return decode(
            pushed.properties, pushed.body, redelivered=pushed.redelivered, origin=self._origin, limits=limits
        )

    def raw_fields(self, raw: Any) -> Mapping[bytes, bytes]:
        """Return a delivery as it came."""
        pushed = cast("Pushed", raw)
        return raw_fields(pushed.properties, pushed.body)

    async def close(self, tokens: Sequence[PushToken]) -> None:  # noqa: ARG002  (the channel knows)
        """Close the channel: RabbitMQ then requeues unacknowledged messages."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def _opened(self) -> Channel:
        if self._channel is None or self._channel.closed:
            raise ProviderUnavailableError("RabbitMQ", "using a channel that is closed")
        return self._channel


def _unless_closed(channel: Channel, work: Callable[[Any], None]) -> None:
    if not channel.closed:
        work(channel.pika)


def _cancelled(inbox: Inbox, _: Any) -> None:
    inbox.lose(ProviderUnavailableError("the queue, which was deleted or moved,", "receiving"))
