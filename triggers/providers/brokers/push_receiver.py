"""A receiver over a wire that pushes: the broker sends up to its credit, and a separate thread takes it."""

import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, cast
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import Message
from history.shell import Shell, fulfil
from triggers.providers.brokers.delivery import unreadable
from triggers.providers.brokers.sending import DeadLetter
from triggers.providers.provider import (
    AT_ONCE,
    NO_LIMITS,
    RECEIVE_WAIT,
    Arrival,
    Limits,
    ProviderUnavailableError,
    Received,
)

#: If nobody asks for so many seconds, the messages that were pushed meanwhile go back.
IDLE = 2.0

#: The part of its interval after which a renewal is due: the caller may come a little early.
_EARLY = 0.9


def _new_id() -> str:
    """Return an id for a delivery: such a broker numbers them by channel or link, and gives messages no ids.

    So a message that comes again is another delivery: better two copies of one message than one copy of two.
    """
    return uuid4().hex


@dataclass(slots=True, eq=False)
class PushToken:
    """The handle of one delivery, by which the wire settles it while its session lasts.

    Not frozen: each delivery makes one, and that would take four times as long.
    """

    tag: Any


class Inbox:
    """Deliveries that were pushed and not handed over; the wire's thread adds, the receiver takes.

    ``prepare`` makes of a delivery what the receiver takes, on the wire's thread.
    """

    def __init__(self, prepare: Callable[[PushToken, Any], Any] | None = None) -> None:
        self._prepare = prepare
        self._lock = threading.Lock()
        self._pushed: deque[tuple[PushToken, Any]] = deque()
        self._waiting: Future[None] | None = None
        self._asking = False
        self._asked_at = time.monotonic()
        #: How many were ever taken out.
        self.taken = 0
        self.lost: Exception | None = None

    @property
    def size(self) -> int:
        """How many were pushed and not handed over."""
        return len(self._pushed)

    @property
    def asking(self) -> bool:
        """Whether somebody waits for messages right now."""
        return self._asking

    def push(self, token: PushToken, raw: Any) -> None:
        """Take a delivery."""
        self.push_all([(token, raw)])

    def push_all(self, deliveries: Sequence[tuple[PushToken, Any]]) -> None:
        """Take deliveries together: the receiver finds all of them, or none yet."""
        if not deliveries:
            return
        if (prepare := self._prepare) is not None:
            deliveries = [(token, prepare(token, raw)) for token, raw in deliveries]
        with self._lock:
            self._pushed.extend(deliveries)
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            fulfil(waiting, None)

    def lose(self, error: Exception) -> None:
        """Note that the session is over: what was pushed will come again."""
        with self._lock:
            self.lost = error
            self._pushed.clear()
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            fulfil(waiting, None)

    def lose_connection(self, broker: str, error: Exception) -> None:
        """Note that the session is over, because of an error of its connection."""
        lost = ProviderUnavailableError(broker, "receiving")
        lost.__cause__ = error
        self.lose(lost)

    def take(self, limit: int) -> list[tuple[PushToken, Any]]:
        """Return what was pushed, up to ``limit``."""
        with self._lock:
            pushed = self._pushed
            if len(pushed) <= limit:
                taken = list(pushed)
                pushed.clear()
            else:
                taken = [pushed.popleft() for _ in range(limit)]
            self.taken += len(taken)
            return taken

    def drop(self, lost: Callable[[PushToken], bool]) -> list[PushToken]:
        """Forget deliveries that go to another consumer, and return their handles."""
        with self._lock:
            pushed = list(self._pushed)
            self._pushed = deque(pair for pair in pushed if not lost(pair[0]))
        return [token for token, _ in pushed if lost(token)]

    def next_one(self) -> "Future[None]":
        """Return a future that is fulfilled when there is something to take, or everything is lost."""
        future: Future[None] = Future()
        with self._lock:
            if self._pushed or self.lost is not None:
                future.set_result(None)
            else:
                self._waiting = future
        return future

    def begin(self) -> None:
        """Note that a caller asks for messages."""
        with self._lock:
            self._asking = True

    def end(self) -> None:
        """Note that nobody asks any more."""
        with self._lock:
            self._asking, self._asked_at = False, time.monotonic()

    def take_unasked(self, *, immediately: bool = False) -> list[PushToken] | None:
        """Return what was pushed while nobody asked for a while; None if a caller may ask any moment."""
        idle = 0.0 if immediately else IDLE
        with self._lock:
            if self._asking or self.lost is not None or time.monotonic() - self._asked_at < idle:
                return None
            tokens = [token for token, _ in self._pushed]
            self.taken += len(tokens)
            self._pushed.clear()
            return tokens


class Wire(Protocol):
    """One consumer at a broker that pushes; deliveries go to an :class:`Inbox`.

    Coroutines raise ProviderUnavailableError when the session is over, and ConfigurationError if the broker
    refuses a request.
    """

    async def open(self, inbox: Inbox) -> None:
        """Begin a session, after the previous one is over."""
        ...

    async def want(self, count: int) -> None:
        """Let the broker push so many, and no more; what is in the inbox counts."""
        ...

    async def stop(self) -> None:
        """Return when the broker pushes nothing more, until the next :meth:`want`."""
        ...

    def stop_soon(self) -> None:
        """Tell the broker to push nothing more, and do not wait; safe from any thread."""
        ...

    def accept(self, tokens: Sequence[PushToken]) -> None:
        """Tell the broker that these are processed."""
        ...

    def give_back(self, tokens: Sequence[PushToken], delay: timedelta) -> None:
        """Give these back as failed, when the delay has passed; immediately if the session ends before."""
        ...

    def release(self, tokens: Sequence[PushToken]) -> None:
        """Give these back immediately; nobody has seen them."""
        ...

    def decode(self, raw: Any, limits: Limits) -> Message:
        """Read a delivery; any exception makes it unreadable."""
        ...

    def raw_fields(self, raw: Any) -> Mapping[bytes, bytes]:
        """Return an unreadable delivery as it came."""
        ...

    async def close(self, tokens: Sequence[PushToken]) -> None:
        """End the session; everything goes back to the broker, held messages as failed."""
        ...


class PushReceiver:
    """One consumer; the broker may push what the last ``receive`` asked for, and never more.

    The wire's thread keeps the connection alive whatever the service does. Messages that are pushed while
    nobody receives go back after two seconds, and at a pause immediately. A message that is recovered with a
    delay stays unsettled until the delay has passed: it survives as any other, and comes back sooner if the
    consumer ends. After ProviderUnavailableError nothing is held any more, and the next ``receive``
    connects again. Messages that it was to settle then are delivered again.

    ``name_of`` names deliveries of a broker that numbers its messages. ``check_limits`` refuses limits that a
    trigger may not have. ``confirmed`` waits until the broker has confirmed acknowledgements, if it does so.
    ``renew`` tells a broker that redelivers after a while that unsettled messages are still being worked on.
    """

    def __init__(
        self,
        wire: Wire,
        shell: Shell,
        dead_letter: DeadLetter,
        *,
        name_of: Callable[[Any], str] | None = None,
        check_limits: Callable[[Limits], None] = lambda _: None,
        confirmed: Callable[[], Awaitable[None]] | None = None,
        renew: Callable[[], None] | None = None,
    ) -> None:
        #: How often to check whether pushed messages must go back, or must be renewed.
        self.keep_alive_interval = timedelta(seconds=IDLE / 2)
        self._confirmed = confirmed
        self._renew = renew
        self._renew_every = 0.0
        self._renewed_at = time.monotonic()
        self._wire = wire
        self._dead_letter = dead_letter
        self._shell = shell
        self._name_of = name_of
        self._check_limits = check_limits
        self._limits: Limits = NO_LIMITS
        self._inbox: Inbox | None = None
        # In the order in which they came, which is how they go back.
        self._held: dict[PushToken, None] = {}
        self._closed = False
        self._paused = False

    @property
    def limits(self) -> Limits:
        """The messages that the trigger refuses; an impossible limit raises a ConfigurationError."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._check_limits(limits)
        self._limits = limits

    async def open(self) -> None:
        """Begin a session.

        Raises:
            ConfigurationError: the broker refuses it.
        """
        self._held.clear()
        inbox = self._new_inbox()
        await self._wire.open(inbox)
        self._inbox = inbox

    def renew_every(self, interval: timedelta) -> None:
        """Set how often unsettled messages are renewed; it may happen more often."""
        self._renew_every = interval.total_seconds()
        self.keep_alive_interval = min(self.keep_alive_interval, interval)

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return up to ``limit`` deliveries, in the order in which the broker pushed them."""
        if limit < 1:
            raise ConfigurationError("limit", f"must be 1 or more, not {limit}", "ask for 1 or more")
        deadline = time.monotonic() + wait.total_seconds()
        if self._inbox is None:
            await self.open()
        inbox, self._paused = cast("Inbox", self._inbox), False
        inbox.begin()
        try:
            taken = inbox.take(limit) or await self._pushed(inbox, limit, deadline)
        except ProviderUnavailableError:
            self._forget()
            raise
        finally:
            inbox.end()
        return self._hold(taken)

    def _hold(self, taken: Sequence[tuple[PushToken, Any]]) -> Sequence[Received]:
        """Note that these are to be settled, and return what the caller gets."""
        self._held.update(dict.fromkeys([token for token, _ in taken]))
        return self._handed_over(taken)

    def _new_inbox(self) -> Inbox:
        return Inbox()

    def _handed_over(self, taken: Sequence[tuple[PushToken, Any]]) -> Sequence[Received]:
        """Return what the caller gets for what was in the inbox."""
        return [self._read(token, raw) for token, raw in taken]

    def _read(self, token: PushToken, raw: Any) -> Received:
        # As delivery.read() does, without three functions for each delivery.
        try:
            return Arrival(self._wire.decode(raw, self._limits), token)
        except ProviderUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001  (foreign bytes can make a decoder raise anything)
            return unreadable(
                error,
                handle=token,
                delivery_id=_new_id if self._name_of is None else partial(self._name_of, raw),
                raw=partial(self._wire.raw_fields, raw),
            )

    async def _pushed(self, inbox: Inbox, limit: int, deadline: float) -> list[tuple[PushToken, Any]]:
        await self._wire.want(limit)
        try:
            await self._shell.result(inbox.next_one(), deadline - time.monotonic())
        except TimeoutError:
            return inbox.take(limit)
        if inbox.lost is not None:
            raise inbox.lost
        return inbox.take(limit)

    def _forget(self) -> None:
        self._inbox = None
        self._held.clear()

    def _mine(self, received: Sequence[Received]) -> list[PushToken]:
        """Return the held ones of these: the others are settled, or were lost with their session.

        Raises:
            ProviderUnavailableError: the session is over; only the first call that notices it raises.
        """
        inbox = self._inbox
        if inbox is not None and inbox.lost is not None:
            self._forget()
            raise ProviderUnavailableError("the broker", "answering what it delivered before") from inbox.lost
        unsettled = self._held
        return cast(
            "list[PushToken]", [delivery.handle for delivery in received if delivery.handle in unsettled]
        )

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Tell the broker that these are processed."""
        if received:
            self._answer(self._mine(received), self._wire.accept)
            await self._until_confirmed()

    async def _until_confirmed(self) -> None:
        if self._confirmed is not None:
            await self._guarded(self._confirmed)

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Give these back, counted as failed; first make sure that they do not come straight back to us."""
        if not received:
            return
        tokens = self._mine(received)
        if delay <= AT_ONCE:
            await self._guarded(self._wire.stop)
        self._answer(tokens, lambda some: self._wire.give_back(some, delay))

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Copy these, with the reason, then acknowledge them: a crash in between leaves both."""
        if not received:
            return
        tokens = self._mine(received)
        copied = [delivery for delivery in received if delivery.handle in tokens]
        await self._guarded(lambda: self._dead_letter(copied, reason))
        self._answer(tokens, self._wire.accept)
        await self._until_confirmed()

    def _answer(self, tokens: Sequence[PushToken], answer: Callable[[Sequence[PushToken]], None]) -> None:
        try:
            answer(tokens)
        except ProviderUnavailableError:
            self._forget()
            raise
        for token in tokens:
            self._held.pop(token, None)

    async def _guarded(self, ask: Callable[[], Any]) -> None:
        try:
            await ask()
        except ProviderUnavailableError:
            self._forget()
            raise

    async def keep_alive(self) -> None:
        """Give back what was pushed while nobody asked; the connection keeps itself alive."""
        inbox = self._inbox
        if self._closed or inbox is None:
            return
        self._renew_now_and_then()
        if self._held:
            return
        unasked = inbox.take_unasked()
        if unasked is None:
            return
        self._wire.stop_soon()
        if unasked:
            self._wire.release(unasked)

    def _renew_now_and_then(self) -> None:
        now = time.monotonic()
        if self._renew is not None and now - self._renewed_at >= self._renew_every * _EARLY:
            self._renewed_at = now
            self._renew()

    async def pause(self) -> None:
        """Let the broker push nothing until the next ``receive``, and give back what was not handed over."""
        if self._paused or self._inbox is None:
            return
        await self._guarded(self._wire.stop)
        if unasked := self._inbox.take_unasked(immediately=True):
            self._answer(unasked, self._wire.release)
        self._paused = True

    async def close(self) -> None:
        """Give back unsettled messages, and leave."""
        if self._closed:
            return
        self._closed = True
        tokens = list(self._held)
        self._forget()
        await self._wire.close(tokens)
