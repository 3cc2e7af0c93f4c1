"""One consumer of a NATS subject, as a wire of a :mod:`~triggers.providers.brokers.push_receiver`."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, cast

from history.errors import ConfigurationError
from history.message import Message
from triggers.providers.brokers.push_receiver import Inbox, PushToken
from triggers.providers.nats.codec import NatsDelivered, decode, delivered, raw_fields
from triggers.providers.nats.connection import ANSWER, NatsConnection
from triggers.providers.nats.settings import UNLIMITED
from triggers.providers.nats.streams import Bound
from triggers.providers.provider import AT_ONCE, NO_LIMITS, Limits, ProviderUnavailableError, Received

#: Finds or makes the durable consumer, on the connection's thread.
Bind = Callable[[NatsConnection], Coroutine[Any, Any, Bound]]

#: Returns a message's delivery count from the server's number.
CountOf = Callable[[int], int]

#: The answers for a delivery that is processed, that has a dead letter, and that must be delivered again.
_ACK, _TERM, _NAK = b"+ACK", b"+TERM", b"-NAK"

#: For how long a request for messages is valid, and how long its end may take to arrive, in seconds.
_STANDING, _GRACE = 5.0, 2.0

#: JetStream's texts for a consumer that is useless now, and for a request that it will never take.
_GONE = ("consumer deleted", "push based")
_NEVER = "exceeded maxrequest"


class Pulls:
    """The requests of one receiver; their messages go to its inbox. It runs on the connection's thread.

    JetStream sends up to the requested number of messages, until a request is over. A request cannot be
    withdrawn. To get nothing more, we stop listening: the server then skips the request.
    """

    def __init__(self, connection: NatsConnection, bound: Bound, inbox: Inbox) -> None:
        self._connection = connection
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{bound.stream}.{bound.durable}"
        self._inbox = inbox
        self._asking = asyncio.Lock()
        self._numbers = count(1)
        self._address = ""
        self._subscription: Any = None
        self._wanted = 0
        #: The number still to come, by the address of each request, and when the request is over.
        self._requests: dict[str, tuple[int, float]] = {}
        #: Acknowledgements, in order, and until when the server should have confirmed each.
        self._confirmations: deque[tuple[asyncio.Future[bytes], float]] = deque()
        #: Why the server does not have an acknowledgement; None as long as it has all.
        self.unconfirmed: BaseException | None = None
        #: The messages that came and are not settled.
        self.unanswered: dict[PushToken, None] = {}

    @property
    def _coming(self) -> int:
        now = time.monotonic()
        over = [address for address, (_, until) in self._requests.items() if until < now]
        for address in over:
            del self._requests[address]
        return sum(left for left, _ in self._requests.values())

    async def want(self, number: int) -> None:
        """Let so many come; what is in the inbox, and on its way, counts."""
        async with self._asking:
            self._wanted = number
            room = number - self._inbox.size
            if self._coming > max(room, 0):
                await self._hear_no_more()
                room = number - self._inbox.size
            await self._ask_for(room - self._coming)

    async def _ask_for(self, number: int) -> None:
        if number < 1:
            return
        if self._subscription is None:
            self._address = self._connection.native.new_inbox()
            self._subscription = await self._connection.native.subscribe(
                f"{self._address}.*", cb=self._came, pending_msgs_limit=0, pending_bytes_limit=0
            )
        address = f"{self._address}.{next(self._numbers)}"
        self._requests[address] = (number, time.monotonic() + _STANDING + _GRACE)
        asked = {"batch": number, "expires": round(_STANDING * 1e9)}
        await self._connection.native.publish(self._subject, json.dumps(asked).encode(), reply=address)

    async def stop(self) -> None:
        """Return when nothing more comes; what was on its way is then in the inbox."""
        async with self._asking:
            self._wanted = 0
            if self._coming:
                await self._hear_no_more()

    async def _hear_no_more(self) -> None:
        subscription, self._subscription = self._subscription, None
        self._requests.clear()
        if subscription is not None:
            await asyncio.wait_for(subscription.drain(), ANSWER)

    async def _came(self, message: Any) -> None:
        headers: dict[str, str] = message.headers or {}
        if not message.reply and "Status" in headers:
            await self._told(message.subject, headers["Status"], headers.get("Description", ""))
            return
        self._count()
        token = PushToken(delivered(message.subject, message.reply, message.data, message.headers))
        self.unanswered[token] = None
        self._inbox.push(token, token.tag)

    def _count(self) -> None:
        """Count one message of the oldest request: requests are answered in turn."""
        if self._requests:
            address, (left, until) = next(iter(self._requests.items()))
            if left > 1:
                self._requests[address] = (left - 1, until)
            else:
                del self._requests[address]

    async def _told(self, address: str, status: str, description: str) -> None:
        """Note that a request is over, and why; ask again if a caller still waits."""
        if status == "100":  # a sign of life
            return
        self._requests.pop(address, None)
        text = description.lower()
        if _NEVER in text:
            problem = f"the NATS consumer takes no such request: {description}"
            self.lose(ConfigurationError("durable", problem, "raise that limit of it"))
        elif status == "503" or any(description in text for description in _GONE):
            self.lose(ProviderUnavailableError("the NATS consumer", f"receiving ({description or 'gone'})"))
        elif self._inbox.asking and self._inbox.size == 0:
            self._connection.do_soon(lambda: self.want(self._wanted))

    def lose(self, error: Exception) -> None:
        """Note that nothing comes any more: unsettled messages are delivered again."""
        self.unanswered.clear()
        self._inbox.lose(error)

    async def answer(self, tokens: Sequence[PushToken], word: bytes) -> None:
        """Send an answer for deliveries, once for each, and do not wait for a reply."""
        for token in tokens:
            if self.unanswered.pop(token, token) is None:
                await self._connection.native.publish(token.tag.answer, word)

    async def settle(self, tokens: Sequence[PushToken], word: bytes) -> None:
        """Report deliveries as processed, and note whether the server confirms it."""
        request = self._connection.replies.request
        self._look_at_confirmations()
        for token in tokens:
            if self.unanswered.pop(token, token) is None:
                answer = await request(token.tag.answer, word)
                self._confirmations.append((answer, time.monotonic() + ANSWER))

    def _look_at_confirmations(self) -> None:
        """Forget confirmed acknowledgements, and note the others: they were refused, or take too long."""
        while self._confirmations:
            answer, until = self._confirmations[0]
            if not answer.done():
                if time.monotonic() > until:
                    self.unconfirmed = TimeoutError(f"no confirmation in {ANSWER:g} s")
                return
            self._confirmations.popleft()
            self.unconfirmed = answer.exception() or self.unconfirmed

    async def confirmed(self) -> None:
        """Wait until the server has confirmed everything, or until it is too late."""
        with suppress(TimeoutError):
            await self._connection.replies.wait([answer for answer, _ in self._confirmations], ANSWER)

    async def leave(self) -> None:
        """Give back everything unsettled, and listen no more."""
        async with self._asking:
            await self._hear_no_more()
        await self.confirmed()
        await self.answer(list(self.unanswered), _NAK)
        await self._connection.native.flush(round(ANSWER))
        self._connection.lost.discard(self.lose)

    async def renew(self) -> None:
        """Report that all unsettled messages are still being worked on."""
        for token in list(self.unanswered):
            if token in self.unanswered:  # else it was settled meanwhile, maybe with a delay
                await self._connection.native.publish(token.tag.answer, b"+WPI")


class NatsConsumer:
    """A durable consumer's share of one receiver."""

    def __init__(
        self, connect: Callable[[], Awaitable[NatsConnection]], bind: Bind, count_of: CountOf
    ) -> None:
        self._connect = connect
        self._bind = bind
        self._count_of = count_of
        self._connection: NatsConnection | None = None
        self._pulls: Pulls | None = None
        self._bound: Bound | None = None
        self._rejected: set[PushToken] = set()
        self._done: list[PushToken] = []

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
        """Find or make the durable consumer; what the previous session still has goes back."""
        if (session := self._detached()) is not None:
            previous, pulls = session
            previous.do_soon(pulls.leave)
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

    def accept(self, tokens: Sequence[PushToken]) -> None:
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

    def give_back(self, tokens: Sequence[PushToken], delay: timedelta) -> None:
        """Let these be delivered again when the delay has passed; the server waits for it."""
        connection, pulls = self._living()
        word = _NAK
        if delay > AT_ONCE:
            word += b" " + json.dumps({"delay": round(delay.total_seconds() * 1e9)}).encode()
        connection.do_soon(partial(pulls.answer, list(tokens), word))

    def release(self, tokens: Sequence[PushToken]) -> None:
        """Let these be delivered again, which counts: JetStream has no other way."""
        self.give_back(tokens, AT_ONCE)

    def renew(self) -> None:
        """Report that all unsettled messages are still being worked on."""
        if self._pulls is not None and self._connection is not None and not self._connection.over:
            self._connection.do_soon(self._pulls.renew)

    def reject(self, received: Sequence[Received]) -> None:
        """Note that a stream has copies of these, so :meth:`confirmed` ends them instead."""
        self._rejected.update(cast("PushToken", delivery.handle) for delivery in received)

    def decode(self, raw: Any, limits: Limits) -> Message:
        """Read a delivery."""
        came = cast("NatsDelivered", raw)
        return decode(came, self._count_of(came.count), limits)

    def raw_fields(self, raw: Any) -> Mapping[bytes, bytes]:
        """Return an unreadable delivery as it came."""
        return raw_fields(cast("NatsDelivered", raw))

    async def close(self, tokens: Sequence[PushToken]) -> None:  # noqa: ARG002  (the pulls know)
        """Give back everything unsettled, and ask for nothing more."""
        if (session := self._detached()) is not None:
            connection, pulls = session
            await connection.do("leaving", pulls.leave)

    def _detached(self) -> tuple[NatsConnection, Pulls] | None:
        """Return the session that must end; None if there is none, or its connection has ended."""
        connection, pulls = self._connection, self._pulls
        self._connection = self._pulls = None
        return None if connection is None or pulls is None or connection.over else (connection, pulls)

    def _living(self) -> tuple[NatsConnection, Pulls]:
        if self._connection is None or self._pulls is None or self._connection.over:
            raise ProviderUnavailableError("NATS", "using a connection that has ended")
        return self._connection, self._pulls


async def _begin(connection: NatsConnection, bound: Bound, inbox: Inbox) -> Pulls:
    pulls = Pulls(connection, bound, inbox)
    connection.lost.add(pulls.lose)
    return pulls
