"""One receiver link, as a wire of :class:`~triggers.providers.brokers.push_receiver.PushReceiver`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, cast

from history.message import Message
from triggers.providers.amqp.codec import AmqpOrigin, decode, raw_fields
from triggers.providers.amqp.connection import AmqpConnection
from triggers.providers.amqp.driver import driver
from triggers.providers.amqp.links import ReceiverLink
from triggers.providers.brokers.push_receiver import Inbox, PushToken
from triggers.providers.provider import AT_ONCE, Limits, ProviderUnavailableError


@dataclass(frozen=True, slots=True)
class AttachPoint:
    """Where a consumer attaches, and the worth of its count."""

    address: str
    origin: AmqpOrigin


#: Declares what a consumer needs.
Declare = Callable[[AmqpConnection], Awaitable[AttachPoint]]


class AmqpConsumer:
    """A link with exactly the requested credit."""

    def __init__(self, connect: Callable[[], Awaitable[AmqpConnection]], declare: Declare) -> None:
        self._connect = connect
        self._declare = declare
        self._link: ReceiverLink | None = None
        self._origin: AmqpOrigin | None = None
        self._inbox = Inbox()
        self._wanted = 0
        self._delayed: dict[PushToken, None] = {}

    async def open(self, inbox: Inbox) -> None:
        """Declare what is needed, and attach; the previous link gives back what it still has."""
        link, self._link = self._link, None
        if link is not None:
            link.close_soon()
        self._inbox, self._wanted, self._delayed = inbox, 0, {}
        connection = await self._connect()
        source = await self._declare(connection)
        lose = partial(inbox.lose_connection, "the AMQP broker")
        link = ReceiverLink(connection, source.address, lose, partial(_push, inbox))
        await connection.link(link)
        self._link, self._origin = link, source.origin

    async def want(self, count: int) -> None:
        """Grant the missing credit; if there is too much, take all of it back first."""
        link = self._attached()
        if count < self._wanted:
            await self.stop()
        self._wanted = count
        # Count from what was taken so far: what is on its way, or in the inbox, has had its credit. Until the
        # connection grants it, some of it may have arrived and been taken.
        link.tell(partial(link.grant, self._inbox.taken + count))

    async def stop(self) -> None:
        """Take the credit back; everything that was sent before arrives before this returns."""
        await self._attached().ask("draining", self._attached().drain)
        self._wanted = 0

    def stop_soon(self) -> None:
        """Take the credit back, and do not wait."""
        link = self._attached()
        link.tell(link.drain_soon)
        self._wanted = 0

    def accept(self, tokens: Sequence[PushToken]) -> None:
        """Settle as accepted."""
        self._settle(tokens, driver.Delivery.ACCEPTED)

    def give_back(self, tokens: Sequence[PushToken], delay: timedelta) -> None:
        """Settle as modified, failed; now or when the delay has passed."""
        if delay <= AT_ONCE:
            self._settle(tokens, driver.Delivery.MODIFIED)
            return
        link = self._attached()
        self._delayed.update((token, None) for token in tokens)

        def later() -> None:
            _settle(link, tokens, driver.Delivery.MODIFIED)
            for token in tokens:
                self._delayed.pop(token, None)

        link.connection.call_later(delay.total_seconds(), later)

    def release(self, tokens: Sequence[PushToken]) -> None:
        """Settle as released, which does not count as a delivery."""
        self._settle(tokens, driver.Delivery.RELEASED)

    def _settle(self, tokens: Sequence[PushToken], state: Any) -> None:
        link = self._attached()
        link.tell(partial(_settle, link, tokens, state))

    def decode(self, raw: Any, limits: Limits) -> Message:
        """Read a delivery."""
        return decode(cast("bytes", raw), cast("AmqpOrigin", self._origin), limits)

    def raw_fields(self, raw: Any) -> Mapping[bytes, bytes]:
        """Return a delivery as it came."""
        return raw_fields(cast("bytes", raw))

    async def close(self, tokens: Sequence[PushToken]) -> None:
        """Settle what is held as failed, and detach: the broker then takes back everything else."""
        link, self._link = self._link, None
        if link is not None and not link.connection.over:
            link.tell(partial(_settle, link, [*tokens, *self._delayed], driver.Delivery.MODIFIED))
            await link.close()

    def _attached(self) -> ReceiverLink:
        if self._link is None or self._link.closed:
            raise ProviderUnavailableError("the AMQP broker", "using a link that is detached")
        return self._link


def _settle(link: ReceiverLink, tokens: Sequence[PushToken], state: Any) -> None:
    """Settle on the connection's thread."""
    if link.closed:
        return
    for token in tokens:
        # Without this, "modified" does not mean a failure, and the delivery would not be counted.
        token.tag.local.failed = state == driver.Delivery.MODIFIED
        token.tag.update(state)
        token.tag.settle()


def _push(inbox: Inbox, delivery: Any, encoded: bytes) -> None:
    inbox.push(PushToken(delivery), encoded)
