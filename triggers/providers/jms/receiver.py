"""One consumer of a JMS destination: it receives, settles single messages, gives back, and reconnects."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, cast
from uuid import uuid4

from history.errors import ConfigurationError
from triggers.providers.brokers.delivery import read
from triggers.providers.brokers.push_receiver import IDLE
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.codec import RAW_BODY, decode, message_id_of, raw, with_reason
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.targets import Target
from triggers.providers.jms.window import Window, WindowDelivery
from triggers.providers.provider import (
    AT_ONCE,
    NO_LIMITS,
    RECEIVE_WAIT,
    Limits,
    ProviderUnavailableError,
    Received,
    Unreadable,
)

_log = logging.getLogger(__name__)

#: Properties of a dead letter.
REASON, SUBSCRIPTION = "dead_letter_reason", "dead_letter_subscription"


class JmsReceiver:
    """A consumer of a queue or a topic; see :class:`~triggers.providers.jms.JmsProvider`.

    After ``receive`` or an acknowledgement raises ProviderUnavailableError, nothing is held any more. The
    same holds when the provider's exception listener reports a lost connection. The provider delivers
    unsettled messages again, and the next ``receive`` connects again.
    """

    #: While nobody receives, a recovered message is given back by at most so much too late.
    keep_alive_interval = timedelta(seconds=1)

    def __init__(
        self,
        link: JmsLink,
        target: Target,
        *,
        subscription: str,
        left: Callable[[], None],
    ) -> None:
        self._link = link
        self._target = target
        self._subscription = subscription
        self._left = left
        self.limits: Limits = NO_LIMITS
        self._connection: Any = None
        self._lost: threading.Event = threading.Event()
        self._idle: deque[Window] = deque()
        self._held: dict[WindowDelivery, None] = {}
        self._later: list[WindowDelivery] = []
        self._giving_back = threading.Lock()
        self._receiving = threading.Lock()
        self._asked_at = time.monotonic()
        self._closed = False

    async def open(self) -> None:
        """Connect and subscribe.

        Raises:
            ConfigurationError: the provider refuses it.
        """
        with self._failing_whole("subscribing"):
            self._connect()
            self._idle.append(self._open_window())

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return up to ``limit`` deliveries; often only one, after the previous one is settled."""
        if limit < 1:
            raise ConfigurationError("limit", f"must be 1 or more, not {limit}", "ask for 1 or more")
        deadline = time.monotonic() + wait.total_seconds()
        with self._receiving, self._failing_whole("receiving"):
            if self._connection is None:
                self._connect()
            while True:
                self._check()
                until = min(deadline, self._give_back_due())
                taken = self._take(limit, until)
                self._asked_at = time.monotonic()
                if taken or self._asked_at >= deadline:
                    return [self._received(delivery) for delivery in taken]

    def _take(self, limit: int, until: float) -> list[WindowDelivery]:
        """Take the messages that are there; if there are none, wait for one."""
        if taken := self._take_at_once(limit):
            return taken
        # Another session may own the group (JMSXGroupID) of the next message: the waiting session shall.
        while len(self._idle) > 1:
            self._idle.pop().close()
        patience = max(0.0, until - time.monotonic())
        if not self._idle and not self._may_open():
            time.sleep(patience)
            return []
        delivery = self._ask(self._idle.popleft() if self._idle else self._open_window(), patience)
        return [] if delivery is None else [delivery]

    def _take_at_once(self, limit: int) -> list[WindowDelivery]:
        """Ask each session that holds nothing, then new ones, as long as there are more messages."""
        idle = [self._idle.popleft() for _ in range(min(limit, len(self._idle)))]
        taken = [delivery for delivery in [self._ask(window, 0.0) for window in idle] if delivery is not None]
        while taken and len(taken) < limit and not self._idle and self._may_open():
            if delivery := self._ask(self._open_window(), 0.0):
                taken.append(delivery)
        return taken

    def _ask(self, window: Window, seconds: float) -> WindowDelivery | None:
        """Wait for a message; a session that gets none becomes idle."""
        message = window.receive(seconds)
        if message is None:
            self._idle.append(window)
            return None
        delivery = WindowDelivery(window, message, message_id_of(message))
        self._held[delivery] = None
        return delivery

    def _may_open(self) -> bool:
        """Whether another session may be opened, in addition to those with a message.

        A provider might push more messages to a session that holds one, and they would wait behind it. So
        there are several sessions only if a session gets nothing unasked, and several may ask.
        """
        return (self._target.is_shared and self._link.pulls) or not (self._held or self._later)

    def _received(self, delivery: WindowDelivery) -> Received:
        received = read(
            partial(decode, self._link, delivery.message, self.limits),
            handle=delivery,
            delivery_id=partial(_id_of, delivery),
            raw=partial(raw, self._link, delivery.message),
        )
        if isinstance(received, Unreadable) and RAW_BODY.encode() not in received.fields:
            delivery.opaque = True
            moves = f"{received.problem}; it moves to {self._target.dead_letters} as it is"
            return replace(received, problem=moves)
        return received

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Acknowledge each separately; a message that cannot be copied whole moves to the dead letters."""
        with self._failing_whole("acknowledging"):
            for arrival in received:
                delivery = cast("WindowDelivery", arrival.handle)
                if delivery.answered:
                    continue
                self._check(delivery)
                if delivery.opaque and isinstance(arrival, Unreadable):
                    self._move(delivery, arrival.problem)
                else:
                    delivery.window.acknowledge(delivery.message)
                self._free(delivery)

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Give these back, in order, each by closing its session; those with a delay when it has passed.

        Until then they are held here, unsettled, so a crash gives them back immediately.
        """
        due = time.monotonic() + delay.total_seconds()
        for arrival in received:
            delivery = cast("WindowDelivery", arrival.handle)
            if delivery.answered or delivery not in self._held:
                continue
            delivery.answered, delivery.due = True, due
            del self._held[delivery]
            if delay > AT_ONCE:
                with self._giving_back:
                    self._later.append(delivery)
            else:
                delivery.window.close()

    def _give_back_due(self) -> float:
        """Give back the recovered messages that are due; return when the next is due, monotonic."""
        if not self._later:
            return float("inf")
        now = time.monotonic()
        with self._giving_back:
            for delivery in [delivery for delivery in self._later if delivery.due <= now]:
                delivery.window.close()
                self._later.remove(delivery)
            return min((delivery.due for delivery in self._later), default=float("inf"))

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move these to the queue ``DLQ.<name>``, unchanged except for the reason, and acknowledge them."""
        with self._failing_whole("dead-lettering"):
            for arrival in received:
                delivery = cast("WindowDelivery", arrival.handle)
                if not delivery.answered:
                    self._check(delivery)
                    self._move(delivery, reason)
                    self._free(delivery)

    def _move(self, delivery: WindowDelivery, reason: str) -> None:
        added = {REASON: reason, SUBSCRIPTION: self._subscription}
        with_reason(
            delivery.message,
            delivery.message_id,
            {name: jms_jvm.java_value(text) for name, text in added.items()},
        )
        delivery.window.move(delivery.message, self._target.dead_letters)

    def _free(self, delivery: WindowDelivery) -> None:
        delivery.answered = True
        del self._held[delivery]
        self._idle.append(delivery.window)

    async def keep_alive(self) -> None:
        """Give back due messages; otherwise the connection shows the provider that this consumer is alive."""
        self._give_back_due()
        if time.monotonic() - self._asked_at >= IDLE:
            self._let_go()

    def _let_go(self) -> None:
        """Close the sessions that hold nothing, because nobody asks: others get what waits for these.

        A broker keeps the messages of a group (JMSXGroupID) for the session that had the group's last one.
        """
        target = self._target
        is_kept = target.kind == "queue" or (target.kind == "topic" and target.durable)
        if is_kept and self._receiving.acquire(blocking=False):
            try:
                while self._idle:
                    self._idle.popleft().close()
            finally:
                self._receiving.release()

    async def close(self) -> None:
        """Give back unsettled messages, in order, and disconnect."""
        if self._closed:
            return
        self._closed = True
        self._left()
        self._disconnect()
        jms_jvm.detach()

    def _connect(self) -> None:
        if self._closed:
            raise ConfigurationError("receiver", "is closed", "open another one")
        lost = threading.Event()
        client_id, _ = self._durable()
        self._connection = self._link.connect("connecting", client_id=client_id)
        self._lost = lost

        def note(error: Any) -> None:
            _log.warning(
                "the JMS provider closed the connection (%s): connecting again; unanswered ones come again",
                self._link.without_password(str(error)),
                extra={"trigger": self._subscription},
            )
            lost.set()

        listener = jms_jvm.listen(f"{self._link.api}.ExceptionListener", "onException", note)
        with self._link.asking("listening for exceptions"):
            self._connection.setExceptionListener(listener)

    def _durable(self) -> tuple[str | None, str | None]:
        """Return the client id and the name of a subscription: both name subscription and topic."""
        target = self._target
        own = f"{self._subscription}:{target.name}"
        if target.shared:
            return None, target.subscriber or own
        if target.kind != "topic" or not target.durable:
            return None, None
        return target.client_id or f"{self._link.settings.client_id}:{own}", target.subscriber or own

    def _open_window(self) -> Window:
        return Window.open(self._link, self._connection, self._target, self._durable()[1])

    def _check(self, delivery: WindowDelivery | None = None) -> None:
        if self._lost.is_set() or (delivery is not None and delivery not in self._held):
            raise ProviderUnavailableError("the JMS provider", "it had ended the connection")

    @contextmanager
    def _failing_whole(self, doing: str) -> Generator[None, None, None]:
        """If anything fails, hold nothing any more: nobody knows what the provider did."""
        try:
            with self._link.asking(doing):
                yield
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        """Close the sessions in the order in which they received, then the connection."""
        connection, self._connection = self._connection, None
        with self._giving_back:
            later, self._later = self._later, []
        for delivery in [*self._held, *later]:
            if not self._lost.is_set():
                delivery.window.close()
        self._held.clear()
        self._idle.clear()
        if connection is not None:
            jms_jvm.close_quietly(connection)


def _id_of(delivery: WindowDelivery) -> str:
    """Return the JMSMessageID, which the provider gave; without one, a unique id."""
    return delivery.message_id or uuid4().hex
