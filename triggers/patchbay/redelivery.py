"""Redelivery: how a message is handled after a failed attempt, before its provider gets an answer.

A receiver around the provider's own. It gets a failed attempt after that was rolled back; then

==========  =========================================================================================
delay       the message is put in limbo, with its headers and the number of attempts, and acknowledged.
            When it is due, this receiver hands it over again, only to the input in which it failed
block       the message is kept, and handed over again before anything else is received
fail_fast   there is one attempt
==========  =========================================================================================

After the last attempt, and after a fatal failure, a copy leaves through the failure port, the retrieval
failure event is published, and the message is removed. Attempts count from their start, so a message that
kills its process also reaches its last attempt. A message that was drained, suspended or lost to another
owner had no attempt, and the provider delivers it again.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from history.bridge import settled
from history.message import Message
from history.store import HistoryStore, instant
from history.support.rendering import text_of
from triggers.events import Cause, publish
from triggers.patchbay.failures import (
    DiedError,
    InputTerms,
    failure_copy,
    failure_event,
    failure_of,
    short_text,
)
from triggers.patchbay.outputs import Outputs
from triggers.providers.provider import (
    AT_ONCE,
    RECEIVE_WAIT,
    Answers,
    Arrival,
    Received,
    Receiver,
    SharingTransactions,
    Unreadable,
)
from triggers.service.failures import FatalError, is_transient
from triggers.service.outcome import Outcome

if TYPE_CHECKING:
    from history.sql.database.engine import AnyConnection
    from triggers.providers.sqljms.limbo.limbo import Delayed, InLimbo, Limbo, OddWaiting

_log = logging.getLogger(__name__)

#: How often limbo is queried for due messages, in seconds.
POLL_INTERVAL = 1.0


class _LostError(Exception):
    """Undoes a step on a message that belongs to another process by now."""


@dataclass(slots=True, kw_only=True)
class RedeliveringReceiver:
    """Hands over the provider's messages, and this input's messages in limbo.

    ``sharing`` is ``inner`` if its messages can be removed in a transaction. ``at_home`` is the same if that
    transaction can be in the limbo's database: a message moves from one to the other in one transaction.
    ``sleep`` waits while a blocked message is not due.
    """

    inner: Receiver
    sharing: SharingTransactions | None
    at_home: SharingTransactions | None
    terms: InputTerms
    outputs: Outputs
    sleep: Callable[[float], Awaitable[None] | None]
    _poll_due: float = 0.0
    _held: dict[int, "InLimbo | OddWaiting"] = field(default_factory=dict[int, "InLimbo | OddWaiting"])
    _blocked: Arrival | None = None
    _blocked_due: float = 0.0
    _drained: bool = False

    @property
    def keep_alive_interval(self) -> timedelta:
        """Often enough for the provider, and for the messages held in limbo."""
        own = self.inner.keep_alive_interval
        return own if self.limbo is None else min(own, self.limbo.lease / 3)

    @property
    def limbo(self) -> "Limbo | None":
        """Where messages wait for their next attempt; None if no message of this input does.

        Another ``on_failure`` may have put messages there before. They are not stranded, unless the trigger's
        transactions reach the provider's messages, and not limbo.
        """
        reachable = self.delays or self.sharing is None or self.at_home is not None
        return self.outputs.limbo if reachable and not self._drained else None

    @property
    def delays(self) -> bool:
        """Whether failed messages are put in limbo."""
        return self.terms.redelivery.on_failure == "delay"

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Give up messages that died too often; return messages that are due again, else the provider's."""
        if self._blocked is not None:
            return await self._wait_for_blocked(wait)
        arrivals: Sequence[Received] = await self._due()
        if not arrivals:
            longest = wait if self.limbo is None else min(wait, timedelta(seconds=POLL_INTERVAL))
            arrivals = await self.inner.receive(limit, longest)
        return [delivery for delivery in arrivals if not await self._died_too_often(delivery)]

    async def _due(self) -> Sequence[Received]:
        # One at a time: of several, a message that kills its process would use up the others' attempts.
        limbo, now = self.limbo, time.monotonic()
        if limbo is None or now < self._poll_due:
            return ()
        taken = await limbo.take_all(self.terms.trigger, limit=1)
        rows: list[InLimbo | OddWaiting] = [*taken.waiting, *taken.odd]
        self._poll_due = now if rows else now + POLL_INTERVAL
        if not rows and not self.delays and not self._held:
            self._drained = await limbo.next_due(self.terms.trigger) is None
        self._held |= {entry.id: entry for entry in rows}
        messages = [Arrival(entry.message, entry) for entry in taken.waiting]
        # A row that is not a message is parked like any unreadable delivery, and removed when it is
        # acknowledged.
        odd = [Unreadable(row.fields, row.problem, row, delivery_id=f"limbo:{row.id}") for row in taken.odd]
        return [*messages, *odd]

    async def _wait_for_blocked(self, wait: timedelta) -> Sequence[Received]:
        left = self._blocked_due - time.monotonic()
        if left > 0:
            await settled(self.sleep(min(left, wait.total_seconds())))
        if self._blocked is None or time.monotonic() < self._blocked_due:
            return ()
        blocked, self._blocked = self._blocked, None
        return [blocked]

    async def _died_too_often(self, delivery: Received) -> bool:
        if not isinstance(delivery, Arrival) or delivery.message.delivery_count <= self._attempts(delivery):
            return False
        attempts = delivery.message.delivery_count - 1
        if self.delays and self.limbo is not None and self._waiting(delivery) is None:
            await self._isolate(self.limbo, delivery, attempts)
        else:
            await self._give_up(delivery, DiedError(attempts), attempts, Cause.MAX_DELIVERY_COUNT)
        return True

    async def _isolate(self, limbo: "Limbo", arrival: Arrival, attempts: int) -> None:
        """Put a message in limbo for a separate last attempt.

        The provider counts all messages that it hands over, even if they were only fetched together with the
        message that killed its process.
        """
        entry = self._entry(arrival, self.terms.redelivery.attempts - 1, DiedError(attempts))
        entry = replace(entry, due=instant(0))
        await self._change(limbo, arrival, partial(limbo.put_inside, entries=[entry]), "putting a message in")

    async def take_failed(self, answers: Answers) -> Answers:
        """Handle failed messages; return the others, which are to be acknowledged or recovered."""
        others: list[tuple[Arrival, Outcome]] = []
        for arrival, outcome in answers:
            error = failure_of(outcome)
            if error is None:
                others.append((arrival, outcome))
            else:
                await self._take(arrival, error)
        return others

    async def _take(self, arrival: Arrival, error: BaseException) -> None:
        attempts = max(arrival.message.delivery_count, 1)
        if not is_transient(error, self.terms.transient):
            await self._give_up(arrival, error, attempts, Cause.SERVICE_FAILED)
        elif attempts >= self._attempts(arrival):
            await self._give_up(arrival, error, attempts, Cause.RETRIES_USED_UP)
        elif self.limbo is not None and (self.delays or self._waiting(arrival) is not None):
            await self._put_off(self.limbo, arrival, error, attempts)
        else:
            self._block(arrival, attempts)

    def _attempts(self, arrival: Arrival) -> int:
        """Return how many attempts a delivery has; a message in limbo keeps the number it was put in with."""
        waiting = self._waiting(arrival)
        again = None if waiting is None else waiting.again
        return self.terms.redelivery.attempts if again is None else again.max_attempts

    def _block(self, arrival: Arrival, attempts: int) -> None:
        again = {"delivery_count": attempts + 1, "redelivered": True}
        self._blocked = Arrival(arrival.message.model_copy(update=again), arrival.handle)
        self._blocked_due = time.monotonic() + self.terms.redelivery.delay.total_seconds()

    async def _put_off(self, limbo: "Limbo", arrival: Arrival, error: BaseException, attempts: int) -> None:
        waiting = self._waiting(arrival)
        if waiting is not None:
            self._held.pop(waiting.id, None)
            await limbo.put_off(waiting, self.terms.redelivery.delay, error=short_text(error))
            return
        entry = self._entry(arrival, attempts, error)
        await self._change(limbo, arrival, partial(limbo.put_inside, entries=[entry]), "putting a message in")

    async def _change(
        self,
        limbo: "Limbo",
        arrival: Arrival,
        write: Callable[["AnyConnection"], Awaitable[None]],
        doing: str,
    ) -> None:
        """Write to limbo and remove a delivery from its provider, in one transaction if possible.

        Otherwise in this order: after a crash in between the provider delivers it again, under its uuid.
        """
        sharing = self.at_home
        if sharing is None:
            await limbo.run(doing, write)
            await self.inner.acknowledge([arrival])
            return

        async def both(connection: "AnyConnection") -> None:
            if not await sharing.acknowledge_inside(connection, [arrival]):
                raise _LostError
            await write(connection)

        try:
            await limbo.run(doing, both)
        except _LostError:
            extra = {"trigger": self.terms.trigger, "uuid": arrival.message.uuid}
            _log.warning(
                "a failed message is handled by another consumer by now: nothing to do here", extra=extra
            )
            return
        sharing.note_acknowledged([arrival])

    async def shares(self, history: HistoryStore) -> bool:
        """Whether the transactions of this history reach the provider's messages, and limbo."""
        if self.sharing is None or (self.delays and self.limbo is not None and self.at_home is None):
            return False
        return await self.sharing.shares(history)

    async def acknowledge_inside(self, transaction: Any, received: Sequence[Received]) -> bool:
        """Remove these, from limbo or from the provider's queue, as a part of a transaction."""
        waiting, others = self._sorted(received)
        if waiting:
            from triggers.providers.sqljms.limbo.limbo import take_out_inside  # noqa: PLC0415  (loads a driver)

            if len(await take_out_inside(transaction, waiting)) < len(waiting):
                return False
        if not others:
            return True
        return self.sharing is not None and await self.sharing.acknowledge_inside(transaction, others)

    def note_acknowledged(self, received: Sequence[Received]) -> None:
        """Hold these no more."""
        waiting, others = self._sorted(received)
        self._forget(waiting)
        if others and self.sharing is not None:
            self.sharing.note_acknowledged(others)

    def _entry(self, arrival: Arrival, attempts: int, error: BaseException) -> "Delayed":
        """Return the entry with which a message waits for its next attempt."""
        from triggers.providers.sqljms.limbo.limbo import Again, Delayed  # noqa: PLC0415  (loads a driver)

        message, terms = arrival.message, self.terms.redelivery
        if message.destination is None:
            message = message.model_copy(update={"destination": self.terms.destination})
        again = Again(
            input=self.terms.trigger,
            attempts=attempts,
            delay=terms.delay,
            max_attempts=terms.attempts,
            failure_port=terms.failure_port,
            error=short_text(error),
        )
        return Delayed(component=self.terms.component, port=self.terms.port, message=message, again=again)

    async def _give_up(self, arrival: Arrival, error: BaseException, attempts: int, cause: Cause) -> None:
        """Publish the event, send the copies, remove the message; after a crash in between, repeat all."""
        event = failure_event(self.terms, arrival.message, error, attempts=attempts, cause=cause)
        await publish(event, self.outputs.shell)
        copy = failure_copy(event, arrival.message)
        waiting, limbo = self._waiting(arrival), self.outputs.limbo
        hand_on = partial(self._hand_on, waiting=waiting, copy=copy)
        if limbo is None:
            await self.outputs.send(self.terms.component, self.terms.redelivery.failure_port, [copy])
            await self.inner.acknowledge([arrival])
        elif waiting is None:
            await self._change(limbo, arrival, hand_on, "giving a message up")
        else:
            await limbo.run("giving a message up", hand_on)
            self._held.pop(waiting.id, None)
        extra = {"trigger": self.terms.trigger, "uuid": arrival.message.uuid}
        _log.warning(
            "given up after %d attempts (%s): %s", attempts, cause.value, text_of(error), extra=extra
        )

    async def _hand_on(
        self, connection: "AnyConnection", *, waiting: "InLimbo | None", copy: Message
    ) -> None:
        """Remove a message from limbo and send its copies, unless another process has it by now."""
        from triggers.providers.sqljms.limbo.limbo import take_out_inside  # noqa: PLC0415  (loads a driver)

        if waiting is None or await take_out_inside(connection, [waiting]):
            port = self.terms.redelivery.failure_port
            await self.outputs.send_inside(connection, self.terms.component, port, [copy])

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Remove these from limbo, or acknowledge them at the provider."""
        waiting, others = self._sorted(received)
        if waiting and self.limbo is not None:
            await self.limbo.take_out(waiting)
            self._forget(waiting)
        if others:
            await self.inner.acknowledge(others)

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Recover these; this was not an attempt."""
        waiting, others = self._sorted(received)
        if waiting and self.limbo is not None:
            await self.limbo.give_back(waiting, delay)
            self._forget(waiting)
        if others:
            await self.inner.recover(others, delay)

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move these to the provider's dead-letter destination; from limbo, to the failure port."""
        _, others = self._sorted(received)
        for delivery in received:
            if isinstance(delivery, Arrival) and self._waiting(delivery) is not None:
                attempts = max(delivery.message.delivery_count, 1)
                await self._give_up(delivery, FatalError(reason), attempts, Cause.SERVICE_FAILED)
        if others:
            await self.inner.dead_letter(others, reason)

    async def keep_alive(self) -> None:
        """Keep held messages alive, in limbo and at the provider."""
        if self._held and self.limbo is not None:
            await self.limbo.renew(list(self._held.values()))
        await self.inner.keep_alive()

    async def close(self) -> None:
        """Recover unanswered messages and leave."""
        try:
            if self._held and self.limbo is not None:
                waiting = list(self._held.values())
                self._held.clear()
                await self.limbo.give_back(waiting)
        finally:
            await self.inner.close()

    def _waiting(self, arrival: Arrival) -> "InLimbo | None":
        """Return the message in limbo that belongs to a delivery; None for one of the provider's."""
        return cast("InLimbo | None", self._taken(arrival))

    def _taken(self, arrival: Received) -> "InLimbo | OddWaiting | None":
        """Return the row in limbo that belongs to a delivery; None for one of the provider's."""
        row = self._held.get(getattr(arrival.handle, "id", -1)) if self._held else None
        return row if row is arrival.handle else None

    def _sorted(self, received: Sequence[Received]) -> tuple[list["InLimbo | OddWaiting"], list[Received]]:
        waiting: list[InLimbo | OddWaiting] = []
        others: list[Received] = []
        for delivery in received:
            entry = self._taken(delivery)
            if entry is None:
                others.append(delivery)
            else:
                waiting.append(entry)
        return waiting, others

    def _forget(self, waiting: Sequence["InLimbo | OddWaiting"]) -> None:
        for entry in waiting:
            self._held.pop(entry.id, None)
