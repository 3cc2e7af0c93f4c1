"""One consumer of a NATS subject, as a wire of a :mod:`~triggers.providers.brokers.push_receiver`."""

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, cast

from history.errors import ConfigurationError
from history.message import Message
from triggers.providers.brokers.push_receiver import Inbox, Token
from triggers.providers.nats.codec import Delivered, decode, raw_fields
from triggers.providers.nats.connection import ANSWER, Connection
from triggers.providers.nats.pulling import Pulls
from triggers.providers.nats.settings import UNLIMITED
from triggers.providers.nats.streams import Bound
from triggers.providers.provider import AT_ONCE, NO_LIMITS, Limits, ProviderUnavailableError, Received

#: Finds or makes the durable consumer, on the connection's thread.
Bind = Callable[[Connection], Coroutine[Any, Any, Bound]]

#: Writes copies to the dead-letter subject, with a reason.
DeadLetter = Callable[[Sequence[Received], str], Awaitable[None]]

#: Returns a message's delivery count from the server's number.
CountOf = Callable[[int], int]

#: The answers for a delivery that is processed, that has a dead letter, and that must be delivered again.
_ACK, _TERM, _NAK = b"+ACK", b"+TERM", b"-NAK"


class NatsConsumer:
    """A durable consumer's share of one receiver."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        bind: Bind,
        dead_letter: DeadLetter,
        count_of: CountOf,
    ) -> None:
        self._connect = connect
        self._bind = bind
        self._dead_letter = dead_letter
        self._count_of = count_of
        self._connection: Connection | None = None
        self._pulls: Pulls | None = None
        self._bound: Bound | None = None
        self._rejected: set[Token] = set()
        self._done: list[Token] = []

    @property
    def renewal(self) -> timedelta:
        """How often to renew."""
        return (
            timedelta(seconds=self._bound.ack_wait / 3) if self._bound is not None else timedelta(seconds=1)
        )

    def check_limits(self, limits: Limits) -> None:
        """Refuse a trigger that would continue with a message after the server has given it up.

        Raises:
            ConfigurationError: it would.
        """
        most = UNLIMITED if self._bound is None else self._bound.max_deliver
        if most == UNLIMITED or limits.max_delivery_count == NO_LIMITS.max_delivery_count:
            return
        if most <= limits.max_delivery_count:
            raise ConfigurationError(
                "max_delivery_count",
                f"is {limits.max_delivery_count}, and the NATS consumer gives a message up after {most} "
                "deliveries: it would be lost",
                f"set it to {most - 1} or less, or max_deliver of the consumer to -1",
            )

    async def open(self, inbox: Inbox) -> None:
        """Find or make the durable consumer."""
        self._rejected.clear()
        self._done.clear()
        connection = await self._connect()
        self._bound = bound = await connection.do("opening a consumer", partial(self._bind, connection))
        self._connection, self._pulls = (
            connection,
            await connection.do("receiving", partial(_begin, connection, bound, inbox)),
        )

    async def want(self, count: int) -> None:
        """Ask for so many."""
        connection, pulls = self._living()
        await connection.do("asking for messages", partial(pulls.want, count))

    async def stop(self) -> None:
        """Ask for no more, and wait for what is on its way."""
        connection, pulls = self._living()
        await connection.do("asking for no more messages", pulls.stop)

    def stop_soon(self) -> None:
        """Ask for no more."""
        connection, pulls = self._living()
        connection.do_soon(pulls.stop)

    def accept(self, tokens: Sequence[Token]) -> None:
        """Note that these are processed; :meth:`confirmed` tells the server."""
        self._living()
        self._done += tokens

    async def confirmed(self) -> None:
        """Tell the server what is processed; the next call checks whether the server confirmed it.

        So acknowledging costs no round trip. If the server does not have an acknowledgement, it delivers the
        message again, and the history knows that it has run.

        Raises:
            ProviderUnavailableError: it did not confirm earlier acknowledgements.
        """
        connection, pulls = self._living()
        done, self._done = self._done, []
        rejected = [token for token in done if token in self._rejected]
        accepted = [token for token in done if token not in self._rejected]
        self._rejected.difference_update(rejected)

        async def settle() -> None:
            await pulls.settle(accepted, _ACK)
            await pulls.settle(rejected, _TERM)

        connection.do_soon(settle)
        if (problem := pulls.unconfirmed) is not None:
            raise ProviderUnavailableError("NATS", "acknowledging") from problem

    def give_back(self, tokens: Sequence[Token], delay: timedelta) -> None:
        """Let these be delivered again when the delay has passed; the server waits for it."""
        connection, pulls = self._living()
        word = _NAK
        if delay > AT_ONCE:
            word += b" " + json.dumps({"delay": round(delay.total_seconds() * 1e9)}).encode()
        connection.do_soon(partial(pulls.answer, list(tokens), word))

    def release(self, tokens: Sequence[Token]) -> None:
        """Let these be delivered again, which counts: JetStream has no other way."""
        self.give_back(tokens, AT_ONCE)

    def renew(self) -> None:
        """Report that all unsettled messages are still being worked on."""
        if self._pulls is not None and self._connection is not None and not self._connection.over:
            self._connection.do_soon(self._pulls.renew)

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Send copies, and wait until a stream has them."""
        await self._dead_letter(received, reason)
        self._rejected.update(cast("Token", delivery.handle) for delivery in received)

    def decode(self, raw: Any, limits: Limits) -> Message:
        """Read a delivery."""
        came = cast("Delivered", raw)
        return decode(came, self._count_of(came.count), limits)

    def raw_fields(self, raw: Any) -> Mapping[bytes, bytes]:
        """Return an unreadable delivery as it came."""
        return raw_fields(cast("Delivered", raw))

    async def close(self, tokens: Sequence[Token]) -> None:  # noqa: ARG002  (the pulls know)
        """Give back everything unsettled, and ask for nothing more."""
        connection, pulls = self._connection, self._pulls
        self._connection = self._pulls = None
        if connection is None or pulls is None or connection.over:
            return

        async def leave() -> None:
            await pulls.stop()
            await pulls.confirmed()
            await pulls.answer(list(pulls.unanswered), _NAK)
            await connection.native.flush(round(ANSWER))
            connection.lost.discard(pulls.lose)

        await connection.do("leaving", leave)

    def _living(self) -> tuple[Connection, Pulls]:
        if self._connection is None or self._pulls is None or self._connection.over:
            raise ProviderUnavailableError("NATS", "using a connection that has ended")
        return self._connection, self._pulls


async def _begin(connection: Connection, bound: Bound, inbox: Inbox) -> Pulls:
    pulls = Pulls(connection, bound, inbox)
    connection.lost.add(pulls.lose)
    return pulls
