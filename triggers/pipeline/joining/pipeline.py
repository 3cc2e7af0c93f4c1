"""The pipeline of a join of all: store each message, and run the service once with all messages of a period.

A complete period is an ordinary message for the trigger's own pipeline, with its own uuid. It is claimed,
judged, retried, parked and completed like any other message. The worker that added the last part runs it. If
that worker dies, another worker finds the period due after nobody holds it any more, and the document history
says whether it has run.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self

from history.beside.joining import Joining
from history.beside.parking import Parking
from history.errors import ConfigurationError, HistoryUnavailableError
from history.message import Message
from history.shell import Shell
from history.store import HistoryStore
from history.store.joining import Added, Hold, JoinPart, Period, PeriodState
from history.store.parking import Evidence, Parked, ParkedKind, parked_id
from triggers.detection.causes import Cause
from triggers.detection.table import Count, Facts, HistoryUse, Policy, decide
from triggers.events import RetrievalFailureEvent, publish
from triggers.pipeline.completion import HoldTrigger
from triggers.pipeline.duplicates import Forward
from triggers.pipeline.execution import Pause
from triggers.pipeline.joining.composite import compose, is_joined
from triggers.pipeline.judge import Judge
from triggers.pipeline.parking.lot import ParkingLot
from triggers.pipeline.pipeline import MessagePipeline
from triggers.pipeline.run import UNPARKED_DELAY
from triggers.providers.provider import Arrival, Capabilities, Received, Receiver, Unreadable
from triggers.service.outcome import Outcome
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)

#: The row of the decision table that each of these messages met when it came.
_ROW_NEW = decide(Facts(count=Count.FIRST, history=HistoryUse.ON), Policy()).row


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOut:
    """Parks messages that waited too long. webMethods discards them; here an operator can still run them."""

    settings: Settings
    lot: ParkingLot
    shell: Shell

    async def give_up(self, period: Period) -> Sequence[Outcome]:
        """Publish an event for each message, and park it; the store has already failed their entries.

        If a process dies in between, the events are published twice; copies in the parking lot replace each
        other.
        """
        reason = self._reason(period)
        events = [self._event(part, reason) for part in period.parts.values()]
        for event in events:
            await publish(event, self.shell)
        parked = await self.lot.park([self._copy(part, reason) for part in period.parts.values()])
        _log.warning("%s: %s", "parked" if parked else "kept", reason, extra={"trigger": self.settings.name})
        return [
            Outcome(
                status=None,
                executed=False,
                acknowledge=parked,
                reason=reason,
                row=_ROW_NEW,
                rejected=parked,
                parked=parked,
                recover_after=0.0 if parked else UNPARKED_DELAY.total_seconds(),
                event=event,
                uuid=part.uuid,
            )
            for part, event in zip(period.parts.values(), events, strict=True)
        ]

    def _reason(self, period: Period) -> str:
        missing = [name for name in self.settings.destinations if name not in period.parts]
        return (
            f"the join of activation {period.activation!r} timed out: "
            f"no message came from {', '.join(missing) or 'a destination it has no more'}"
        )

    def _event(self, part: JoinPart, reason: str) -> RetrievalFailureEvent:
        names = self.settings.destinations
        return RetrievalFailureEvent(
            trigger_name=self.settings.name,
            destination=part.destination,
            destination_index=names.index(part.destination) if part.destination in names else 0,
            delivery_count=part.message.delivery_count,
            exception_message=reason,
            cause=Cause.JOIN_TIMED_OUT,
            message=part.message,
        )

    def _copy(self, part: JoinPart, reason: str) -> Parked:
        name = self.settings.name
        return Parked(
            id=parked_id(name, part.message),
            trigger_name=name,
            kind=ParkedKind.REJECTED,
            reason=reason,
            uuid=part.uuid,
            destination=part.destination,
            message=part.message,
            evidence=Evidence(delivery_count=part.message.delivery_count, fence=part.fence),
        )


@dataclass(slots=True)
class Running:
    """The periods that this pipeline has taken and not finished; all deliveries share them."""

    _numbers: set[int] = field(default_factory=set[int])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, periods: Sequence[Period]) -> None:
        """Note periods that were taken."""
        with self._lock:
            self._numbers.update(period.number for period in periods)

    def end(self, period: Period) -> None:
        """Forget a period."""
        with self._lock:
            self._numbers.discard(period.number)

    def numbers(self) -> Sequence[int]:
        """Return the periods that must be kept."""
        with self._lock:
            return sorted(self._numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoiningPipeline:
    """The pipeline of a trigger with ``join="all"``.

    ``parts`` handles the messages that come from a provider, ``joined`` the messages that are made of them.
    """

    settings: Settings
    parts: MessagePipeline
    joined: MessagePipeline
    joining: Joining
    hold: Hold
    time_out: TimeOut
    running: Running = field(default_factory=Running)

    @property
    def shell(self) -> Shell:
        """How it waits: in the thread that calls it, or in a task."""
        return self.joined.shell

    @property
    def store(self) -> HistoryStore | None:
        """The history, which a join always has."""
        return self.joined.store

    @property
    def parking(self) -> Parking | None:
        """Where messages are parked, except in the local file."""
        return self.joined.parking

    @property
    def lot(self) -> ParkingLot:
        """Where messages are parked."""
        return self.joined.lot

    @property
    def turns(self) -> None:
        """None: a message of a join is stored first, and the joined ones run together."""
        return

    @property
    def at_once(self) -> int:
        """How many messages a worker delivers in its next call."""
        return self.settings.batch

    def turning(self, goes_on: Callable[[], bool]) -> Self:  # noqa: ARG002  (as the protocol has it)
        """Return the same pipeline: it has no turns."""
        return self

    def gathering(self) -> Self:
        """Return the same pipeline: it makes its calls for one part at a time."""
        return self

    def at(self, index: int) -> Self:
        """Return the same pipeline for the messages of one destination."""
        return replace(self, parts=self.parts.at(index))

    def waiting(self, pause: Pause) -> Self:
        """Return the same pipeline, which waits with ``pause`` between the tries of a message."""
        return replace(self, joined=self.joined.waiting(pause))

    def forwarding(self, forward: Forward) -> Self:
        """Return the same pipeline, which sends duplicates among the parts with ``forward``."""
        return replace(self, parts=self.parts.forwarding(forward))

    def holding(self, hold: HoldTrigger) -> Self:
        """Return the same pipeline, which calls ``hold`` before a fatal failure is recorded that suspends."""
        return replace(self, joined=self.joined.holding(hold))

    def judged(self, by: Callable[[Judge], Judge]) -> Self:
        """Return the same pipeline under other judges, for the parts and for the joined messages."""
        return replace(self, parts=self.parts.judged(by), joined=self.joined.judged(by))

    async def park_unreadable(self, unreadable: Unreadable) -> bool:
        """Park a delivery that is not a message, whole, and log it; False if nothing could park it."""
        return await self.parts.park_unreadable(unreadable)

    async def close(self) -> None:
        """Stop renewing leases, and close the connections that were opened for this pipeline."""
        await self.joined.close()

    async def deliver(
        self, receiver: Receiver, received: Sequence[Received], can: Capabilities | None = None
    ) -> Sequence[Outcome]:
        """Store the messages of a receiver and answer them; then run what has become complete.

        The outcome of a join follows the outcome of the message that completed it.
        """
        addressed = [self._addressed(delivery) for delivery in received]
        outcomes = await self.parts.deliver(receiver, addressed, can)
        all_outcomes: list[Outcome] = []
        for outcome in outcomes:
            all_outcomes.append(_without_period(outcome))
            if (period := _completed(outcome)) is not None:
                all_outcomes += await self.settle_period(period)
        return all_outcomes

    def _addressed(self, delivery: Received) -> Received:
        """Set the destination that a message came from, whatever its sender wrote there."""
        destination = self.settings.destinations[self.parts.index or 0]
        if not isinstance(delivery, Arrival) or delivery.message.destination == destination:
            return delivery
        message = delivery.message.model_copy(update={"destination": destination})
        return replace(delivery, message=message)

    async def handle(self, message: Message) -> Outcome:
        """Store a message, or run a joined one. The message that completes a join has its outcome.

        Raises:
            ConfigurationError: the message does not name one of the trigger's destinations.
        """
        if message.destination not in self.settings.destinations:
            if is_joined(message):
                return await self.joined.handle(message)
            raise ConfigurationError(
                "message",
                f"its destination {message.destination!r} is none of the join's",
                f"use Message(destination=...) with one of {', '.join(self.settings.destinations)}",
            )
        outcome = await self.parts.handle(message)
        if (period := _completed(outcome)) is None:
            return _without_period(outcome)
        (joined,) = await self.settle_period(period)
        # The message itself is stored, whatever happens to the join.
        return joined._replace(acknowledge=True, recover_after=0.0)

    async def handle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Handle messages one by one: a message may complete what the message before it began."""
        return [await self.handle(message) for message in messages]

    async def take_due(self) -> Sequence[Period]:
        """Take periods that nobody holds, for :meth:`settle_period`.

        Raises:
            HistoryUnavailableError: the store did not answer.
        """
        periods = await self.joining.due(self.settings.name, self.hold)
        self.running.begin(periods)
        return periods

    async def settle_period(self, period: Period) -> Sequence[Outcome]:
        """Run a complete period, or park what waited too long; then forget it, unless it is tried again.

        Returns one outcome for a complete period, and one for each message of other periods.
        """
        self.running.begin([period])
        try:
            if period.state is PeriodState.READY:
                message = compose(self.settings.name, self.settings.destinations, period)
                outcomes: Sequence[Outcome] = [await self.joined.handle(message)]
            else:
                outcomes = await self.time_out.give_up(period)
            done = all(outcome.acknowledge for outcome in outcomes)
            pause = max((outcome.recover_after for outcome in outcomes), default=0.0)
            await self._answer_period(period, done=done, pause=timedelta(seconds=pause))
        finally:
            self.running.end(period)
        return outcomes

    async def _answer_period(self, period: Period, *, done: bool, pause: timedelta) -> None:
        name = self.settings.name
        try:
            if done:
                await self.joining.finish(name, period.number)
            else:
                await self.joining.keep(name, [period.number], Hold(self.hold.owner, pause))
        except HistoryUnavailableError as error:
            # It is taken again later; a message that has run is a duplicate then.
            _log.warning("%s", error, extra={"trigger": name})

    async def release(self, periods: Sequence[Period]) -> None:
        """Give back periods that were taken and not begun."""
        for period in periods:
            self.running.end(period)
            await self._answer_period(period, done=False, pause=timedelta(0))

    async def keep_alive(self) -> None:
        """Report that the periods that run here are alive."""
        numbers = self.running.numbers()
        if not numbers:
            return
        try:
            await self.joining.keep(self.settings.name, numbers, self.hold)
        except HistoryUnavailableError as error:
            _log.warning("%s", error, extra={"trigger": self.settings.name})


def _completed(outcome: Outcome) -> Period | None:
    return outcome.result.period if isinstance(outcome.result, Added) else None


def _without_period(outcome: Outcome) -> Outcome:
    return outcome._replace(result=None) if isinstance(outcome.result, Added) else outcome
