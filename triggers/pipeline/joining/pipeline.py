"""The pipeline of a join of all: keep each message, and run the service once with all of a period.

A complete period is an ordinary message to the trigger's own pipeline, with a uuid of its own: it is claimed,
judged, retried, parked and completed like any other. Whoever added the last part runs it; where that worker
died, another one finds the period due once nobody holds it any more, and the document history tells whether
it had run.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self

from history.errors import ConfigurationError, HistoryUnavailableError
from history.message import Message
from history.shell import Shell
from history.store import HistoryStore
from history.store.joining import Added, Hold, Joining, Period, PeriodState
from history.store.parking import Parking
from triggers.pipeline.duplicates import Forward
from triggers.pipeline.execution import Pause
from triggers.pipeline.joining.composite import compose, is_joined
from triggers.pipeline.joining.time_out import TimeOut
from triggers.pipeline.judge import Judge
from triggers.pipeline.pipeline import MessagePipeline
from triggers.providers.provider import Arrival, Capabilities, Received, Receiver, Unreadable
from triggers.service.outcome import Outcome
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Running:
    """The periods that this pipeline has taken and not finished; shared by all that deliver to it."""

    _numbers: set[int] = field(default_factory=set[int])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, periods: Sequence[Period]) -> None:
        """Note periods that were taken."""
        with self._lock:
            self._numbers.update(period.number for period in periods)

    def end(self, period: Period) -> None:
        """Forget one."""
        with self._lock:
            self._numbers.discard(period.number)

    def numbers(self) -> Sequence[int]:
        """Return those that must be kept."""
        with self._lock:
            return sorted(self._numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoiningPipeline:
    """The pipeline of a trigger with ``join="all"``.

    ``parts`` is for the messages that come from a provider, ``joined`` for those that are made of them.
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
        """Where messages are kept aside, but for the local file."""
        return self.joined.parking

    @property
    def upkeep(self) -> None:
        """Nothing but what the sweeper of joins does: old periods are taken when they are due."""

    @property
    def turns(self) -> None:
        """None: a message of a join is kept first, and the joined ones run together."""
        return

    @property
    def at_once(self) -> int:
        """How many messages a worker is to deliver in its next call."""
        return self.settings.batch

    def turning(self, goes_on: Callable[[], bool]) -> Self:  # noqa: ARG002  (as the protocol has it)
        """Return the same pipeline: it has no turns."""
        return self

    def gathering(self) -> Self:
        """Return the same pipeline: its calls are those of parts, one at a time."""
        return self

    def at(self, index: int) -> Self:
        """Return the same pipeline for the messages of one destination."""
        return replace(self, parts=self.parts.at(index))

    def waiting(self, pause: Pause) -> Self:
        """Return the same pipeline, waiting by ``pause`` between the tries of a message."""
        return replace(self, joined=self.joined.waiting(pause))

    def forwarding(self, forward: Forward) -> Self:
        """Return the same pipeline, which sends duplicates among the parts by ``forward``."""
        return replace(self, parts=self.parts.forwarding(forward))

    def judged(self, by: Callable[[Judge], Judge]) -> Self:
        """Return the same pipeline under other judges, of parts and of what is joined."""
        return replace(self, parts=self.parts.judged(by), joined=self.joined.judged(by))

    async def park_unreadable(self, unreadable: Unreadable) -> bool:
        """Keep a delivery that is no message, whole, and say so; False when nothing could take it."""
        return await self.parts.park_unreadable(unreadable)

    async def close(self) -> None:
        """Stop renewing leases, and give back the connections that were opened for this pipeline."""
        await self.joined.close()

    async def deliver(
        self, receiver: Receiver, received: Sequence[Received], can: Capabilities | None = None
    ) -> Sequence[Outcome]:
        """Keep what a receiver handed over and answer it; then run what has become complete.

        The outcome of a join follows that of the message that completed it.
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
        """Have a message say which of the trigger's destinations it came from, whatever its sender said."""
        destination = self.settings.destinations[self.parts.index or 0]
        if not isinstance(delivery, Arrival) or delivery.message.destination == destination:
            return delivery
        message = delivery.message.model_copy(update={"destination": destination})
        return replace(delivery, message=message)

    async def handle(self, message: Message) -> Outcome:
        """Keep a message, or run a joined one; what completes a join has the outcome of the join.

        Raises:
            ConfigurationError: the message does not name one of the trigger's destinations.
        """
        if is_joined(message):
            return await self.joined.handle(message)
        if message.destination not in self.settings.destinations:
            raise ConfigurationError(
                "message",
                f"its destination {message.destination!r} is none of the join's",
                f"use Message(destination=...) with one of {', '.join(self.settings.destinations)}",
            )
        outcome = await self.parts.handle(message)
        if (period := _completed(outcome)) is None:
            return _without_period(outcome)
        (joined,) = await self.settle_period(period)
        # The message itself is kept, whatever becomes of the join.
        return joined._replace(acknowledge=True, recover_after=0.0)

    async def handle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Handle messages one by one: one may complete what the one before it began."""
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
        """Run a complete period, or park what waited in vain; then forget it, unless it is to be tried again.

        One outcome for a complete period, one for each message of the others.
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
            # It is taken again later, and what has run is a duplicate then.
            _log.warning("%s", error, extra={"trigger": name})

    async def release(self, periods: Sequence[Period]) -> None:
        """Give back periods that were taken and not begun."""
        for period in periods:
            self.running.end(period)
            await self._answer_period(period, done=False, pause=timedelta(0))

    async def keep_alive(self) -> None:
        """Say that the periods which run here are alive."""
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
