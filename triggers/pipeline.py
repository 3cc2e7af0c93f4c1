"""The order of things: claim, decide, run, complete or park, answer. The only file that knows it.

Each step is numbered (:class:`Step`), because a process may die right after any of them:

=============  ========================================  ===================================
died after     what stands                               the next delivery
=============  ========================================  ===================================
1              nothing                                   is NEW
2, 3, 4, 5, 6  STARTED; after 5 a parked copy, if asked  is IN_DOUBT: resolver, or parked
7              COMPLETED, not acknowledged               is a DUPLICATE, acknowledged
8              everything                                does not come
=============  ========================================  ===================================

A failed message is parked before its entry is completed, and its event is published in between: dying between
the two repeats them at the next delivery, the other way round would lose them. There is no policy here: what
becomes of a message is decided in :mod:`triggers.detection`.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import Any

from history.message import Message
from history.parking import Parked, ParkedKind, parked_id, raw_fields
from triggers.binding import Binding, Delivery
from triggers.completion import Completion
from triggers.detection import Answer, Ending, HistoryUse, Status, afterwards
from triggers.events import Cause, RetrievalFailureEvent, publish
from triggers.failures import BodyTooLargeError, Sleep, UnawaitedError, is_transient, rerun
from triggers.judge import Judge
from triggers.outcome import Outcome
from triggers.parking_lot import ParkingLot
from triggers.providers.provider import Arrival, Received, Receiver, Unreadable
from triggers.run import UNPARKED_DELAY, Run
from triggers.settings import Settings

_log = logging.getLogger(__name__)


class Step(IntEnum):
    """The points between which a process may die; reached in this order.

    Only what is given up is PARKED and PUBLISHED; of a batch, the successes are COMPLETED before that.
    """

    RECEIVED = 1
    CLAIMED = 2
    DECIDED = 3
    RUN = 4
    PARKED = 5
    PUBLISHED = 6
    COMPLETED = 7
    ANSWERED = 8


#: Told of every step that is reached, such as by the crash tests.
Observer = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What a trigger does with a message, over a blocking or an asyncio store."""

    settings: Settings
    service: Callable[..., Any]
    binding: Binding
    judge: Judge
    completion: Completion
    lot: ParkingLot
    sleep: Sleep
    blocking: bool
    observe: Observer | None = None

    async def deliver(self, receiver: Receiver, received: Sequence[Received]) -> Sequence[Outcome]:
        """Handle what a receiver handed over, and answer all of it."""
        self._reach(Step.RECEIVED)
        arrivals = [one for one in received if isinstance(one, Arrival)]
        outcomes = await self.handle_batch([one.message for one in arrivals])
        answers = [(one, outcome) for one, outcome in zip(arrivals, outcomes, strict=True)]
        done: list[Received] = [one for one, outcome in answers if outcome.acknowledge]
        back: dict[float, list[Received]] = {}
        for arrival, outcome in answers:
            if not outcome.acknowledge:
                back.setdefault(outcome.recover_after, []).append(arrival)
        for unreadable in (one for one in received if isinstance(one, Unreadable)):
            parked = await self._park_unreadable(unreadable)
            (done if parked else back.setdefault(UNPARKED_DELAY.total_seconds(), [])).append(unreadable)
        if done:
            await receiver.acknowledge(done)
        for seconds, some in back.items():
            await receiver.recover(some, timedelta(seconds=seconds))
        self._reach(Step.ANSWERED)
        return outcomes

    async def handle(self, message: Message) -> Outcome:
        """Handle one message: a batch of one."""
        run = Run(message, self._history_use())
        await self._handle_wave([run])
        return run.outcome()

    async def handle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Detect all with one claim, run the NEW ones in order, and complete them with one write.

        A uuid that stands twice is decided in order: its second message waits for the first to be completed.
        """
        use = self._history_use()
        runs = [Run(message, use) for message in messages]
        for wave in _waves(runs):
            await self._handle_wave(wave)
        return [run.outcome() for run in runs]

    def _history_use(self) -> HistoryUse:
        return HistoryUse.OFF if self.judge.store is None else HistoryUse.ON

    async def _handle_wave(self, runs: Sequence[Run]) -> None:
        """Claim, judge, execute and conclude; no uuid stands twice."""
        await self.judge.claim(runs)
        self._reach(Step.CLAIMED)
        for run in runs:
            decision = await self.judge.judge(run)
            self._reach(Step.DECIDED)
            if decision.runs:
                await self._execute(run)
        await self._conclude(runs)

    async def _execute(self, run: Run) -> None:
        """Run the service, again where the failure is transient and the settings say so."""
        settings = self.settings
        run.executed, run.error = True, None
        try:
            try:
                run.result = await self._call(run, 1)
            except Exception as error:
                if not settings.retry.max_attempts or not is_transient(error, settings.transient):
                    raise
                run.result = await rerun(
                    lambda attempt: self._call(run, attempt),
                    retry=settings.retry,
                    transient=settings.transient,
                    sleep=self.sleep,
                )
        except Exception as error:  # noqa: BLE001  (the service is user code)
            run.error = error
            run.failed_transiently = is_transient(error, settings.transient)
        ending = Ending.TRANSIENT if run.failed_transiently else Ending.FATAL
        run.aftermath = afterwards(
            Ending.SUCCESS if run.error is None else ending, settings.policy, history=run.claimed
        )
        self._reach(Step.RUN)

    async def _call(self, run: Run, attempt: int) -> Any:
        message = run.message
        size = message.body_size()
        if size > self.settings.max_body_size:
            raise BodyTooLargeError(size, self.settings.max_body_size)
        delivery = Delivery(
            uuid=message.uuid,
            fence=run.fence,
            attempt=attempt,
            trigger_name=self.settings.name,
            delivery_count=message.delivery_count,
        )
        positional, named = self.binding.arguments(message, delivery)
        result = self.service(*positional, **named)
        if not hasattr(result, "__await__"):
            return result
        if self.blocking:
            raise UnawaitedError(self.binding.name, result)
        return await result

    async def _conclude(self, runs: Sequence[Run]) -> None:
        """Complete the successes first, so that nothing a failure needs can keep them in doubt."""
        done: list[Run] = []
        others: list[Run] = []
        for run in runs:
            if run.claimed and run.error is None:
                done.append(run)
            else:
                self._answer(run)
                if run.executed or run.parks or run.raises_event:
                    others.append(run)
        if done:
            await self._settle(done)
        if others:
            await self._conclude_others(others)

    async def _conclude_others(self, runs: Sequence[Run]) -> None:
        """Keep aside, tell of and complete what failed, and what the table says of what did not run."""
        if kept := [run for run in runs if run.parks]:
            await self._park(kept)
        for run in runs:
            if run.raises_event:
                await self._publish(run)
        if ended := [run for run in runs if run.claimed and (run.parked or not run.parks)]:
            await self._settle(ended)

    async def _settle(self, runs: Sequence[Run]) -> None:
        unsettled = await self.completion.settle(runs)
        if not unsettled:
            self._reach(Step.COMPLETED)
        elif kept := [run for run in unsettled if run.error is None]:
            await self._park(kept)

    def _answer(self, run: Run) -> None:
        """Note what the table tells the provider."""
        assert run.decision is not None  # noqa: S101  (every run is judged before it is concluded)
        answer = run.decision.answer if run.aftermath is None else run.aftermath.answer
        run.acknowledge = answer is Answer.ACKNOWLEDGE
        dropped = run.decision.status is Status.IN_DOUBT and not run.parks and not run.executed
        if dropped and run.acknowledge:
            _log.error(
                "an In Doubt message is dropped, as in_doubt='acknowledge' says", extra=self._extra(run)
            )

    async def _park(self, runs: Sequence[Run]) -> None:
        parked = await self.lot.park([run.copy(self.settings.name) for run in runs])
        for run in runs:
            run.parked = parked
            run.acknowledge = run.acknowledge and parked
            _log.warning("%s: %s", "parked" if parked else "kept", run.reason, extra=self._extra(run))
        self._reach(Step.PARKED)

    async def _publish(self, run: Run) -> None:
        run.event = run.make_event(self.settings.name, self.settings.destination)
        await publish(run.event, blocking=self.blocking)
        self._reach(Step.PUBLISHED)

    async def _park_unreadable(self, unreadable: Unreadable) -> bool:
        """Keep a delivery that is no message, whole, and say so."""
        name, fields = self.settings.name, raw_fields(unreadable.fields)
        stand_in = Message(body=repr(sorted(fields.items())))
        parked = await self.lot.park(
            [
                Parked(
                    id=parked_id(name, stand_in),
                    trigger_name=name,
                    kind=ParkedKind.UNREADABLE,
                    reason=unreadable.problem,
                    destination=self.settings.destination,
                    raw=fields,
                )
            ]
        )
        event = RetrievalFailureEvent(
            trigger_name=name,
            destination=self.settings.destination,
            delivery_count=-1,
            exception_message=unreadable.problem,
            cause=Cause.UNREADABLE,
        )
        await publish(event, blocking=self.blocking)
        return parked

    def _reach(self, step: Step) -> None:
        if self.observe is not None:
            self.observe(step)

    def _extra(self, run: Run) -> dict[str, object]:
        status = None if run.decision is None else run.decision.status
        return {
            "trigger": self.settings.name,
            "uuid": run.message.uuid,
            "fence": run.fence,
            "status": status,
        }


def _waves(runs: Sequence[Run]) -> Iterable[Sequence[Run]]:
    """Split runs so that no uuid stands twice in one wave, and each waits for the one before it."""
    if len(runs) <= 1:
        return [runs] if runs else []
    waves: list[list[Run]] = []
    seen: dict[str, int] = {}
    for run in runs:
        uuid = run.message.uuid
        number = 0 if uuid is None else seen.get(uuid, -1) + 1
        if uuid is not None:
            seen[uuid] = number
        if number == len(waves):
            waves.append([])
        waves[number].append(run)
    return waves
