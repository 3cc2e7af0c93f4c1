"""Receivers for workers, in front of a provider's own: one that many share, and one that acknowledges lazily.

A worker with its own receiver costs a connection, which waits for messages, and a round trip for each answer.
A thousand workers of an event loop share these instead: each has one message at a time. One read fills all
free workers, one call acknowledges all finished messages, and one call keeps all held messages alive.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import monotonic

from history.gathering import Gathering
from triggers.providers.provider import (
    AT_ONCE,
    NO_LIMITS,
    RECEIVE_WAIT,
    Capabilities,
    Limits,
    Received,
    Receiver,
    ServingMany,
    capabilities_of,
)

#: The most messages of one read, and of one acknowledgement.
MOST = 500

#: For the call that opens: there is one receiver for all workers.
EVERYBODY = sys.maxsize

#: How long after a failed keep-alive the next part tries, in seconds.
RETRY_PAUSE = 1.0

#: The answer to a waiting worker.
_Waiting = asyncio.Future[Sequence[Received]]

#: How many acknowledgements are gathered at most.
MOST_GATHERED = 100


class SharedReceiver:
    """Opens parts for workers; the receiver behind them is open while a part is open.

    It belongs to the event loop that uses it.
    """

    def __init__(self, provider: ServingMany, *, destination: str, subscription: str, name: str) -> None:
        self._open_for_many = partial(
            provider.open_for_many, destination, subscription=subscription, name=name
        )
        self._receiver: Receiver | None = None
        self._parts = 0
        # Protects steps that must not overlap: opening, closing, and keeping alive, which registers the name
        # again.
        self._changing = asyncio.Lock()
        self._opening: Gathering[str, Receiver] = Gathering(self._open_for_all, most=EVERYBODY)
        self._acknowledging: Gathering[Received, None] = Gathering(self._acknowledge_all, most=MOST)
        self._waiting: deque[tuple[float, _Waiting]] = deque()
        self._feeding: asyncio.Task[None] | None = None
        self._alive_due = 0.0

    async def open_part(self, worker: str) -> "Part":
        """Open a part for a worker.

        Raises:
            ProviderUnavailableError: the provider does not answer; all waiting workers receive this error.
        """
        self._parts += 1
        try:
            return Part(self, await self._opening.ask(worker))
        except BaseException:
            self._parts -= 1
            raise

    async def _open_for_all(self, workers: Sequence[str]) -> Sequence[Receiver]:
        async with self._changing:
            if self._receiver is None:
                self._receiver = await self._open_for_many()
            return [self._receiver] * len(workers)

    async def leave(self) -> None:
        """Close the receiver, if this was the last part."""
        self._parts -= 1
        async with self._changing:
            if self._parts or self._receiver is None:
                return
            receiver, self._receiver = self._receiver, None
            if self._feeding is not None:  # for workers that were cancelled
                self._feeding.cancel()
                await asyncio.gather(self._feeding, return_exceptions=True)
            await receiver.close()

    async def receive_one(self, wait: timedelta) -> Sequence[Received]:
        """Return the next message that no other worker gets, or none; see :class:`Receiver`."""
        arrival: _Waiting = asyncio.get_running_loop().create_future()
        self._waiting.append((monotonic() + wait.total_seconds(), arrival))
        if self._feeding is None:
            self._feeding = asyncio.create_task(self._feed())
        return await arrival

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Acknowledge these, together with the finished messages of other workers."""
        for one in received:
            await self._acknowledging.ask(one)

    async def keep_alive(self) -> None:
        """Keep the messages of all parts alive, if it is time."""
        async with self._changing:
            receiver = self._receiver
            if receiver is None or monotonic() < self._alive_due:
                return
            self._alive_due = monotonic() + RETRY_PAUSE
            await receiver.keep_alive()
            self._alive_due = monotonic() + receiver.keep_alive_interval.total_seconds() / 2

    async def _acknowledge_all(self, received: Sequence[Received]) -> Sequence[None]:
        if self._receiver is not None:
            await self._receiver.acknowledge(received)
        return [None] * len(received)

    async def _feed(self) -> None:
        """Receive while a worker waits."""
        try:
            while self._waiting:
                await self._feed_once()
        finally:
            self._feeding = None

    async def _feed_once(self) -> None:
        receiver, asked = self._receiver, min(len(self._waiting), MOST)
        if receiver is None:  # the last part was closed meanwhile
            self._answer_all(())
            return
        until = self._waiting[0][0]
        try:
            received = await receiver.receive(asked, timedelta(seconds=max(0.0, until - monotonic())))
        except BaseException as error:
            self._fail_all(error)
            if not isinstance(error, Exception):
                raise
            return
        left = deque(received)
        while left and self._waiting:
            _, arrival = self._waiting.popleft()
            if not arrival.done():
                arrival.set_result([left.popleft()])
        if left:  # the worker that asked for it was cancelled
            await receiver.recover(list(left), AT_ONCE)
        while self._waiting and self._waiting[0][0] <= monotonic():
            self._answer(self._waiting.popleft()[1], ())

    def _answer_all(self, received: Sequence[Received]) -> None:
        while self._waiting:
            self._answer(self._waiting.popleft()[1], received)

    def _answer(self, arrival: _Waiting, received: Sequence[Received]) -> None:
        if not arrival.done():
            arrival.set_result(received)

    def _fail_all(self, error: BaseException) -> None:
        while self._waiting:
            _, arrival = self._waiting.popleft()
            if arrival.done():
                continue
            if isinstance(error, asyncio.CancelledError):
                arrival.cancel()
            else:
                arrival.set_exception(error)


class Part:
    """A worker's part of a shared receiver: a receiver that hands out one message at a time.

    It receives the next message after this one is answered.
    """

    def __init__(self, shared: SharedReceiver, receiver: Receiver) -> None:
        self._shared = shared
        self._receiver = receiver
        self._limited = capabilities_of(receiver).limited
        self._unanswered: Sequence[Received] = ()
        self._closed = False

    @property
    def keep_alive_interval(self) -> timedelta:
        """The interval of the receiver behind it."""
        return self._receiver.keep_alive_interval

    @property
    def limits(self) -> Limits:
        """The trigger's limits."""
        return NO_LIMITS if self._limited is None else self._limited.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        if self._limited is not None:
            self._limited.limits = limits

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:  # noqa: ARG002
        """Return one message, whatever the limit: other messages are for workers that have none."""
        self._unanswered = await self._shared.receive_one(wait)
        return self._unanswered

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Acknowledge these; they count as answered, even if this fails."""
        self._unanswered = ()
        await self._shared.acknowledge(received)

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Recover these."""
        self._unanswered = ()
        await self._receiver.recover(received, delay)

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move these to the dead-letter destination."""
        self._unanswered = ()
        await self._receiver.dead_letter(received, reason)

    async def keep_alive(self) -> None:
        """Keep the messages of all parts alive."""
        await self._shared.keep_alive()

    async def close(self) -> None:
        """Recover unanswered messages, and leave."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._unanswered:
                await self.recover(self._unanswered)
        finally:
            await self._shared.leave()


@dataclass(slots=True)
class LazyReceiver:
    """A receiver that gathers acknowledgements.

    It sends them before a receive, when they are many, while the trigger is suspended, and at close.
    """

    receiver: Receiver
    _done: list[Received] = field(default_factory=list[Received])
    _can: Capabilities = field(init=False)

    def __post_init__(self) -> None:
        """Find out what the inner receiver supports."""
        self._can = capabilities_of(self.receiver)

    @property
    def keep_alive_interval(self) -> timedelta:
        """The inner receiver's interval."""
        return self.receiver.keep_alive_interval

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Acknowledge what has gathered, then receive."""
        await self._flush()
        return await self.receiver.receive(limit, wait)

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Gather finished messages."""
        self._done += received
        if len(self._done) >= MOST_GATHERED:
            await self._flush()

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Recover immediately."""
        await self.receiver.recover(received, delay)

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move to the dead-letter destination immediately."""
        await self.receiver.dead_letter(received, reason)

    async def keep_alive(self) -> None:
        """Keep everything alive that the provider does not know to be done."""
        await self.receiver.keep_alive()

    async def pause(self) -> None:
        """Acknowledge what has gathered: nothing may be received for days. Then let the inner one pause."""
        await self._flush()
        if self._can.pausing is not None:
            await self._can.pausing.pause()

    def take_refusals(self) -> int:
        """Return how many acknowledgements the inner receiver reports as refused."""
        refusing = self._can.counting_refusals
        return 0 if refusing is None else refusing.take_refusals()

    async def close(self) -> None:
        """Acknowledge what has gathered, then close."""
        try:
            await self._flush()
        finally:
            await self.receiver.close()

    async def _flush(self) -> None:
        if self._done:
            await self.receiver.acknowledge(self._done)
            self._done = []
