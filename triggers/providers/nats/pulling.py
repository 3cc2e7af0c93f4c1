"""Requests for messages of a durable consumer, and their results. It runs on the connection's thread.

JetStream sends up to the requested number of messages, until a request is over. A request cannot be
withdrawn. To get nothing more, we stop listening: the server then skips the request.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from history.errors import ConfigurationError
from triggers.providers.brokers.push_receiver import Inbox, Token
from triggers.providers.nats.codec import delivered
from triggers.providers.nats.connection import ANSWER, Connection
from triggers.providers.nats.streams import Bound
from triggers.providers.provider import ProviderUnavailableError

#: For how long a request for messages is valid, and how long its end may take to arrive, in seconds.
_STANDING, _GRACE = 5.0, 2.0

#: JetStream's texts for a consumer that is useless now, and for a request that it will never take.
_GONE = ("consumer deleted", "push based")
_NEVER = "exceeded maxrequest"


class Pulls:
    """The requests of one receiver; their messages go to its inbox."""

    def __init__(self, connection: Connection, bound: Bound, inbox: Inbox) -> None:
        self._connection = connection
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{bound.stream}.{bound.durable}"
        self._inbox = inbox
        self._turn = asyncio.Lock()
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
        self.unanswered: dict[Token, None] = {}

    @property
    def _coming(self) -> int:
        now = time.monotonic()
        over = [address for address, (_, until) in self._requests.items() if until < now]
        for address in over:
            del self._requests[address]
        return sum(left for left, _ in self._requests.values())

    async def want(self, number: int) -> None:
        """Let so many come; what is in the inbox, and on its way, counts."""
        async with self._turn:
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
        async with self._turn:
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
        token = Token(delivered(message.subject, message.reply, message.data, message.headers))
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
        elif status == "503" or any(words in text for words in _GONE):
            self.lose(ProviderUnavailableError("the NATS consumer", f"receiving ({description or 'gone'})"))
        elif self._inbox.asking and self._inbox.size == 0:
            self._connection.do_soon(lambda: self.want(self._wanted))

    def lose(self, error: Exception) -> None:
        """Note that nothing comes any more: unsettled messages are delivered again."""
        self.unanswered.clear()
        self._inbox.lose(error)

    async def answer(self, tokens: Sequence[Token], word: bytes) -> None:
        """Send an answer for deliveries, once for each, and do not wait for a reply."""
        for token in tokens:
            if self.unanswered.pop(token, token) is None:
                await self._connection.native.publish(token.tag.answer, word)

    async def settle(self, tokens: Sequence[Token], word: bytes) -> None:
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

    async def renew(self) -> None:
        """Report that all unsettled messages are still being worked on."""
        for token in list(self.unanswered):
            if token in self.unanswered:  # else it was settled meanwhile, maybe with a delay
                await self._connection.native.publish(token.tag.answer, b"+WPI")
