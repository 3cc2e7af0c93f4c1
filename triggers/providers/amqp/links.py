"""The links of a connection: one that receives, and one that sends."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from history.shell import fail, fulfil
from triggers.providers.amqp.connection import AmqpConnection, AmqpError, Link, error_of
from triggers.providers.amqp.driver import driver


class ReceiverLink(Link):
    """A link that receives: exactly what it has credit for.

    Credit is counted as totals. So a repeated :meth:`grant` with the same total allows nothing more, whatever
    has arrived and been taken in between.
    """

    def __init__(
        self,
        connection: AmqpConnection,
        address: str,
        lost: Callable[[Exception], None],
        push: Callable[[Any, bytes], None],
    ) -> None:
        super().__init__(connection, address, lost)
        self._push = push
        self._drained: Future[Any] | None = None
        # How many the peer was allowed to send since the link was attached, and how many have come.
        self._granted = 0
        self._pushed = 0
        self._draining = False
        self._grant_afterwards: int | None = None

    def make(self, session: Any, name: str) -> Any:
        """Return a receiver."""
        link = session.receiver(name)
        link.source.address = self.address
        link.target.address = None
        return link

    def grant(self, total: int) -> None:
        """Let the peer send until ``total`` have come since the link was attached."""
        if self._draining:
            self._grant_afterwards = total
        elif total > self._granted:
            self.proton.flow(total - self._granted)
            self._granted = total

    def delivered(self, delivery: Any) -> None:
        """Read a delivery, when all of it has arrived."""
        if delivery.aborted:  # the peer gave it up in the middle, and its credit is used
            delivery.settle()
            self._granted -= 1
        elif delivery.readable and not delivery.partial:
            encoded = bytes(self.proton.recv(delivery.pending) or b"")
            self.proton.advance()
            self._pushed += 1
            self._push(delivery, encoded)
        self._look_whether_drained()

    def flowed(self) -> None:
        """Note that the peer has given credit back."""
        self._look_whether_drained()

    def drain(self, future: "Future[Any]") -> None:
        """Take the credit back; the future is fulfilled when nothing more is on its way."""
        self._drained = future
        self.drain_soon()

    def drain_soon(self) -> None:
        """Take the credit back, and do not wait."""
        self._grant_afterwards = None
        self._draining = True
        if self.proton.credit > 0:
            self.proton.drain(0)
        self._look_whether_drained()

    def _look_whether_drained(self) -> None:
        # In proton, a delivery that came and was not read in full has not used its credit.
        if not self._draining or self.proton.credit > 0:
            return
        self._granted, self._draining = self._pushed, False
        if self._drained is not None:
            fulfil(self._drained, None)
            self._drained = None
        if self._grant_afterwards is not None:
            self.grant(self._grant_afterwards)


class SenderLink(Link):
    """A link that sends; each message is settled by the peer's outcome."""

    def __init__(self, connection: AmqpConnection, address: str, lost: Callable[[Exception], None]) -> None:
        super().__init__(connection, address, lost)
        self._queue: deque[bytes] = deque()
        self._unsettled = 0
        self._refused: Exception | None = None
        self._done: Future[Any] | None = None
        self._number = 0

    def make(self, session: Any, name: str) -> Any:
        """Return a sender."""
        link = session.sender(name)
        link.target.address = self.address
        return link

    def send(self, future: "Future[Any]", messages: Sequence[bytes]) -> None:
        """Send in order; the future is fulfilled when all are accepted, and fails if one is not."""
        self._done, self._refused = future, None
        self._unsettled = len(messages)
        self._queue.extend(messages)
        self.flowed()

    def flowed(self) -> None:
        """Send as much as the credit allows."""
        while self._queue and self.proton.credit > 0:
            self._number += 1
            self.proton.delivery(str(self._number))
            self.proton.stream(self._queue.popleft())
            self.proton.advance()

    def delivered(self, delivery: Any) -> None:
        """Note the outcome of a message."""
        if not delivery.updated:
            return
        state = delivery.remote_state
        if state != driver.Delivery.ACCEPTED and self._refused is None:
            self._refused = _refusal(state, delivery)
        delivery.settle()
        self._unsettled -= 1
        if self._unsettled == 0 and self._done is not None:
            if self._refused is None:
                fulfil(self._done, None)
            else:
                fail(self._done, self._refused)


def _refusal(state: Any, delivery: Any) -> Exception:
    if state == driver.Delivery.RELEASED:
        return AmqpError("amqp:not-found", "nothing receives what is sent there")
    condition = delivery.remote.condition
    return error_of(condition) if condition is not None else AmqpError("rejected", str(state))
