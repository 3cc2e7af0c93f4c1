"""A trigger's receiver on a link: each transaction is one message; waiting for the next runs the agent."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from history.message import Message
from history.sql.links.history import Handing
from history.store.watermark import Incoming
from triggers.providers.provider import (
    AT_ONCE,
    RECEIVE_WAIT,
    Arrival,
    ProviderUnavailableError,
    Received,
    Unreadable,
)
from triggers.providers.sqlremote.agent.agent import Agent
from triggers.providers.sqlremote.protocol.chain import roll
from triggers.providers.sqlremote.protocol.inbox import Apply
from triggers.providers.sqlremote.protocol.parts import Transaction, checksum
from triggers.providers.sqlremote.publication.envelope import opened
from triggers.providers.sqlremote.publication.log import operations_of

#: The longest pause before a transaction that was given back is handed out again.
LONGEST_PAUSE: Final = timedelta(seconds=10)

#: The first such pause.
FIRST_PAUSE: Final = timedelta(milliseconds=50)


@dataclass(frozen=True, slots=True)
class Piece:
    """One transaction of an :class:`Apply`, and what is stored with it."""

    transaction: Transaction
    handing: Handing


class LinkReceiver:
    """Receives one link's transactions: the body is the list of operations, in their order.

    A message that was sent keeps its properties and headers.

    Until the next transaction comes, it polls, reports and sends. A transaction that is given back is handed
    out again before anything else, one at a time, after a growing pause. The delivery count is undefined: an
    ordered link gives up on its next transaction only if the settings say so.

    Guarantee: atomic, if the trigger's service shares the transaction of the link's database; else what
    the trigger's own history promises.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._pieces: list[Piece] = []
        self._pause = FIRST_PAUSE
        self._joined = False

    @property
    def keep_alive_interval(self) -> timedelta:
        """How often to call; the agent itself renews its lease, between transactions."""
        return timedelta(minutes=1)

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return the next transactions; meanwhile run the link.

        Raises:
            ProviderUnavailableError: database or carrier do not answer, or another agent runs the link.
        """
        deadline = time.monotonic() + wait.total_seconds()
        while True:
            if self._pieces:  # a caller that acknowledges late gets no more before that
                time.sleep(max(0.0, deadline - time.monotonic()))  # noqa: ASYNC251  (driven)
                return []
            apply = await self.agent.step()
            if apply is not None:
                return await self._hand_out(apply, limit)
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            due = (self.agent.due - self.agent.end.clock()).total_seconds()
            time.sleep(max(0.0, min(left, due)))  # noqa: ASYNC251  (as above)

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Continue behind these; if their work was not stored with the watermark, store it now.

        Raises:
            ProviderUnavailableError: it could not be stored; they come again.
        """
        for delivery in received:
            if not self._pieces or self._pieces[0] is not delivery.handle:
                continue  # given back before, or acknowledged twice
            try:
                await self._done(self._pieces.pop(0))
            except ProviderUnavailableError:
                self._drop()
                raise

    async def _done(self, piece: Piece) -> None:
        handing, end = piece.handing, self.agent.end
        end.history.take_back(handing)
        self._joined = self._joined or handing.stored
        if not handing.stored:
            await self.agent.store_alone(handing)
        end.hooks.message_apply_end(end.link, handing.offset)
        await self.agent.applied(Apply((piece.transaction,), handing.columns))
        self._pause = FIRST_PAUSE

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Hand these out again later, and all that follow them."""
        mine = [piece for piece in self._pieces if any(piece is delivery.handle for delivery in received)]
        if not mine:
            return
        halted = next((piece.handing for piece in mine if piece.handing.halts), None)
        self._drop()
        self.agent.hold(max(delay, self._pause))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        if halted is not None:
            await self._halt(halted, "the log says why")

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:  # noqa: ARG002
        """Refuse: a link has no dead letters; a failed transaction is parked.

        Raises:
            ProviderUnavailableError: always.
        """
        raise ProviderUnavailableError("a link", f"dead-lettering ({reason})")

    async def keep_alive(self) -> None:
        """Do nothing: see :attr:`keep_alive_interval`."""

    async def close(self) -> None:
        """Leave the link; the next agent reads unacknowledged transactions again."""
        self._drop()
        await self.agent.close()

    def _drop(self) -> None:
        """Forget what was handed out; it is read again."""
        for piece in self._pieces:
            self.agent.end.history.take_back(piece.handing)
        self._pieces.clear()

    async def _hand_out(self, apply: Apply, limit: int) -> Sequence[Received]:
        received: list[Received] = []
        for piece in self._cut(apply)[: limit if self._joined else 1]:
            delivery = self._received(piece)
            if isinstance(delivery, Unreadable) and piece.handing.policy == "halt":
                if not received:
                    await self._halt(piece.handing, delivery.problem)
                break
            received.append(delivery)
            self._pieces.append(piece)
        end = self.agent.end
        for piece in self._pieces:
            end.hooks.message_apply_begin(end.link, piece.handing.offset)
            end.history.hand(piece.handing)
        return received

    async def _halt(self, handing: Handing, problem: str) -> None:
        await self.agent.halt(
            f"the transaction at {handing.offset} cannot be applied ({problem}); "
            f"correct what it needs, then run: doubtless sqlremote start {handing.link}"
        )

    def _cut(self, apply: Apply) -> Sequence[Piece]:
        """Give each transaction of a group the columns that are stored with it."""
        end = self.agent.end
        before = end.subscriber.columns
        pieces: list[Piece] = []
        chain = apply.chain
        for transaction in apply.transactions:
            last = transaction is apply.transactions[-1]
            offset, digest = transaction.offset, checksum(transaction.data)
            chain = None if chain is None else roll(chain, digest)
            columns: Incoming = apply.columns if last else replace(before, log_received=offset, chain=chain)
            handing = Handing(
                link=end.link,
                agent=end.token,
                previous=pieces[-1].handing.offset if pieces else before.log_received,
                offset=offset,
                columns=columns,
                digest=digest,
                policy=end.settings.on_apply_error,
            )
            pieces.append(Piece(transaction, handing))
        return pieces

    def _received(self, piece: Piece) -> Received:
        handing, link = piece.handing, self.agent.end.link
        try:
            body, sent = opened(operations_of(piece.transaction))
            message = Message.model_validate(
                {
                    **sent,
                    "body": body,
                    "uuid": handing.uuid,
                    "message_id": f"ID:{handing.uuid}",
                    "destination": f"link:{link}",
                    "properties": {**sent["properties"], "link": link, "commit_offset": handing.offset},
                }
            )
        except ValueError as error:
            fields = {b"transaction": piece.transaction.data}
            return Unreadable(fields, str(error), piece, delivery_id=handing.uuid)
        return Arrival(message, piece)
