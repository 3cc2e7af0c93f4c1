"""One message of a join of all: it is detected like any other message, and then stored, not run.

The store does two things in one step: it stores the message and completes its entry. A worker that dies
before that step leaves a STARTED entry. The next delivery stores the message after all; storing it twice is
harmless. A worker that dies after the step leaves a COMPLETED entry, and the next delivery is a duplicate.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from history.beside.joining import Joining
from history.entry import State
from history.errors import HistoryUnavailableError
from history.identity import LONGEST
from history.message import Message
from history.store import HistoryStore
from history.store.joining import Added, Addition, Hold, JoinPart, JoinTerms
from history.store.parking import Evidence
from resolvers.resolution import Resolution, Resolved
from triggers.detection.table import Count, Facts, HistoryUse, Status, decide
from triggers.pipeline.completion import Completion
from triggers.pipeline.end import succeeded
from triggers.pipeline.execution import Pause, ServiceTransaction, conclude
from triggers.pipeline.run import Run
from triggers.pipeline.sharing.gathered import GatheredCalls
from triggers.pipeline.sharing.turn import Turns
from triggers.service.failures import BodyTooLargeError, FatalError, Sleep, persist
from triggers.service.settings import Settings
from triggers.service.terms import ACTIVATION

_log = logging.getLogger(__name__)

#: The value of :attr:`~triggers.service.outcome.Outcome.join` for a message that waits for others.
WAITING = "waiting"

#: The most characters of an activation. The uuid of a joined message contains it, with the trigger's name.
LONGEST_ACTIVATION = LONGEST // 2


class NoActivationError(FatalError):
    """A message of a join has no property ``activation``."""

    __module__ = "triggers"

    def __init__(self) -> None:
        super().__init__(
            f"the message has no property {ACTIVATION!r}, by which a join knows what belongs together; "
            "have the sender set it"
        )


class PlaceTakenError(FatalError):
    """Another message of the same destination and activation is already waiting."""

    __module__ = "triggers"

    def __init__(self, part: JoinPart) -> None:
        super().__init__(
            f"another message of {part.destination!r} with the activation {part.activation!r} waits already; "
            "the first one is kept. Run this one when that join is done, or discard it"
        )


def activation_of(message: Message) -> str:
    """Return the activation, a number as text.

    Raises:
        NoActivationError: there is none.
        FatalError: it is too long to be a part of the uuid of a joined message.
    """
    activation = message.properties.get(ACTIVATION)
    if activation is None or activation == "":
        raise NoActivationError
    text = str(activation)
    if len(text) > LONGEST_ACTIVATION:
        raise FatalError(
            f"the property {ACTIVATION!r} has {len(text)} characters ({LONGEST_ACTIVATION} at most); "
            "have the sender use a shorter text, such as the id of an order"
        )
    return text


def settings_of_parts(settings: Settings) -> Settings:
    """Return the settings for the detection of parts: the lease is the service's."""
    return replace(settings, lease=None)


def may_be_kept(uuid: str, trigger_name: str, message: Message, evidence: Evidence) -> Resolved:  # noqa: ARG001
    """Answer as the resolver of parts: a part that was started and not completed was not stored."""
    if evidence.started_at is None:
        return Resolved(Resolution.IN_DOUBT, "nobody knows whether it was kept")
    return Resolved(Resolution.NEW, "it was not kept, or its entry would be completed")


def give_back(run: Run, settings: Settings, error: HistoryUnavailableError) -> None:
    """Recover a message if its join cannot be reached, as if the history had not answered its claim."""
    facts = Facts(count=Count.FIRST, history=HistoryUse.UNREACHABLE)
    run.end, run.problem, run.decision = None, error, decide(facts, settings.policy)


def reject(run: Run) -> None:
    """Note that a message is new but cannot be a part of its join."""
    assert run.decision is not None  # noqa: S101  (every run is judged before it is executed)
    run.decision = replace(run.decision, status=None, rejected=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartExecution:
    """Stores a message; other executions run the service instead."""

    settings: Settings
    sleep: Sleep
    joining: Joining
    hold: Hold

    @property
    def takes_batches(self) -> bool:
        """False: a message may complete what the message before it began."""
        return False

    def waiting(self, pause: Pause) -> Self:  # noqa: ARG002  (as of the protocol)
        """Return itself: it does not wait for long."""
        return self

    async def run_together(self, runs: Sequence[Run], transaction: ServiceTransaction | None = None) -> None:
        """Store messages one by one."""
        for run in runs:
            await self.run(run, transaction)

    async def run(self, run: Run, transaction: ServiceTransaction | None = None) -> None:  # noqa: ARG002
        """Store one message; the result of its end says what happened to it."""
        try:
            added = await self._add(run)
        except HistoryUnavailableError as error:
            give_back(run, self.settings, error)
        except FatalError as error:
            conclude(run, None, error, self.settings)
            reject(run)
        else:
            run.join = WAITING
            run.note("kept for its join")
            run.end = succeeded(added, self.settings.policy, recorded=True)

    async def _add(self, run: Run) -> Added:
        """Store it.

        Raises:
            FatalError: it cannot be a part of a join.
            HistoryUnavailableError: the store did not answer.
        """
        message, settings = run.message, self.settings
        if (size := message.body_size()) > settings.max_body_size:
            raise BodyTooLargeError(size, settings.max_body_size)
        assert run.fence is not None  # noqa: S101  (the settings ensure that it was claimed)
        part = JoinPart(
            activation=activation_of(message),
            destination=message.destination or "",
            fence=run.fence,
            message=message,
        )
        terms = JoinTerms(destinations=settings.destinations, time_out=settings.join_timeout)
        added = await persist(lambda: self.joining.add(settings.name, part, terms, self.hold), self.sleep)
        if added.addition is Addition.TAKEN:
            raise PlaceTakenError(part)
        if added.addition is Addition.SPOILT:
            raise FatalError(
                f"the record of the join {part.activation!r} cannot be read; repair or delete it in the "
                'history (docs/stored-data.md, "period"), and run this message'
            )
        return added


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCompletion:
    """Completes the entries of messages that were not stored: the store has completed the others."""

    settings: Settings
    store: HistoryStore
    usual: Completion

    def turning(self, turns: Turns | None) -> Self:  # noqa: ARG002  (as the protocol has it)
        """Return itself: stored parts are not settled in turns."""
        return self

    def gathering(self, gathered: GatheredCalls) -> Self:  # noqa: ARG002  (as the protocol has it)
        """Return itself: parts are settled one at a time."""
        return self

    async def settle(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Record how runs ended; see :class:`~triggers.pipeline.completion.Completion`."""
        rest: list[Run] = []
        for run in runs:
            added = None if run.end is None else run.end.result
            if not isinstance(added, Added):
                rest.append(run)
            elif added.addition is Addition.STALE:
                await self._leave(run)
        return await self.usual.settle(rest)

    async def _leave(self, run: Run) -> None:
        """Leave a message to the worker that took it over; a duplicate if that worker has stored it."""
        assert run.message.uuid is not None  # noqa: S101  (only what has an identity is claimed)
        run.join, run.acknowledge = None, False
        run.note("another worker has taken it over")
        try:
            (entry,) = await self.store.lookup(self.settings.name, [run.message.uuid])
        except HistoryUnavailableError as error:
            _log.warning("%s: the message is given back", error, extra={"trigger": self.settings.name})
            return
        run.acknowledge = entry is not None and entry.state is State.COMPLETED
        if run.acknowledge and run.decision is not None:
            run.end, run.decision = None, replace(run.decision, status=Status.DUPLICATE)
