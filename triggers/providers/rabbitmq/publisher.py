"""Sending to RabbitMQ: every message is mandatory and confirmed; an error is never a guess."""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from history.errors import ConfigurationError
from history.shell import fulfil
from history.support.paging import pieces_of
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.rabbitmq.codec import Basic
from triggers.providers.rabbitmq.connection import Channel, RabbitConnection, is_nack
from triggers.providers.rabbitmq.frames import EncodedProperties, properties_of

#: How many messages are on their way at a time, at most.
CHUNK = 500

#: A message, encoded.
Encoded = tuple[Basic, bytes]


class ConfirmingPublisher:
    """A channel in confirm mode, for one sender at a time."""

    def __init__(self) -> None:
        self._channel: Channel | None = None
        self._number = 0
        self._unconfirmed: set[int] = set()
        self._returned: list[str] = []
        self._refused = False
        self._done: Future[Any] | None = None

    @property
    def usable(self) -> bool:
        """Whether the channel is open."""
        return self._channel is not None and not (self._channel.closed or self._channel.connection.over)

    async def open(self, connection: RabbitConnection) -> None:
        """Open the channel."""
        channel = await connection.channel(lambda _: None)

        def confirm(future: "Future[Any]") -> None:
            channel.pika.add_on_return_callback(self._on_return)
            channel.pika.confirm_delivery(self._on_confirm, callback=partial(fulfil, future))

        await channel.run("asking for confirms", confirm)
        self._channel = channel

    async def publish(self, exchange: str, key: str, messages: Sequence[Encoded]) -> None:
        """Publish in order; return when the broker has stored all of them safely.

        Raises:
            ProviderUnavailableError: it is unknown which of them arrived.
            ConfigurationError: one of them reached no queue, cannot be written, or the broker refuses it.
        """
        assert self._channel is not None  # noqa: S101  (usable)
        for piece in pieces_of(messages, CHUNK):
            chunk = [(properties_of(basic.properties, basic.headers), body) for basic, body in piece]
            send = partial(self._send, exchange=exchange, key=key, chunk=chunk)
            try:
                await self._channel.run("sending", send)
            except ProviderUnavailableError:
                self._channel.connection.check_takes_messages()
                raise
            if self._returned:
                raise ConfigurationError(
                    "destination",
                    f"nothing receives what is sent to {exchange or key!r} ({self._returned[0]})",
                    "declare its queue, or start its consumer first",
                )
            if self._refused:
                raise ProviderUnavailableError("RabbitMQ, which refused a message,", "sending")

    def _send(
        self,
        future: "Future[Any]",
        *,
        exchange: str,
        key: str,
        chunk: Sequence[tuple[EncodedProperties, bytes]],
    ) -> None:
        assert self._channel is not None  # noqa: S101
        self._returned, self._refused, self._done = [], False, future
        for properties, body in chunk:
            self._number += 1
            self._unconfirmed.add(self._number)
            self._channel.pika.basic_publish(exchange, key, body, properties, mandatory=True)

    def _on_return(self, _: Any, method: Any, _properties: Any, _body: bytes) -> None:
        self._returned.append(str(method.reply_text))

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        number = method.delivery_tag
        answered = (
            {unconfirmed for unconfirmed in self._unconfirmed if unconfirmed <= number}
            if method.multiple
            else {number}
        )
        self._unconfirmed -= answered
        self._refused = self._refused or is_nack(method)
        if not self._unconfirmed and self._done is not None:
            fulfil(self._done, None)

    def close_soon(self) -> None:
        """Close the channel, and do not wait: the number of channels of a connection is limited."""
        if self._channel is not None:
            self._channel.close_soon()
