"""The order of the steps: claim, decide, run, complete or park, answer. Only this file knows it.

Each step is numbered (:class:`Step`), because a process may die right after any of them:

=============  ==============================================  ===================================
died after     what exists                                     the next delivery
=============  ==============================================  ===================================
1              nothing                                         is NEW
2, 3, 4, 5, 6  STARTED; after 5 an event, after 6 also a       is IN_DOUBT: resolver, or parked
               parked copy, if the message is given up
7              COMPLETED, not acknowledged                     is a DUPLICATE, acknowledged
8              everything                                      does not come
=============  ==============================================  ===================================

The event of a message that is given up is published before the message is parked, and the message is parked
before its entry is completed. If a process dies in between, the next delivery repeats the steps before; in
the other order, the steps after would be lost. For an atomic trigger nothing exists before step 7, where its
transaction commits: until then the next delivery is NEW. This file contains no policy:
:mod:`triggers.detection.table` makes the decisions.

A worker that has fetched several messages may claim the next message together with step 7 of the one before
(see :mod:`triggers.pipeline.sharing.turn`). The entry of such a message exists before step 1: the message is
IN_DOUBT as soon as it is claimed. Many tasks may make their steps 2, and their steps 7, in common calls
(``sharing.gathered``).

A cancelled task is not a process that died. If it is cancelled before the call of the service, its claim is
remembered as a claim under which nothing ran (:mod:`triggers.pipeline.undecided`), and the next delivery is
NEW. If there is a lease, the claim is released before the lease ends, so that other processes find nothing In
Doubt. If it is cancelled while the service runs, nobody knows what the service did: the next delivery is
IN_DOUBT. If it is cancelled later, steps 5 to 7 are still finished, and the cancellation waits at most
:data:`history.shell.PATIENCE` for them; the next delivery is a DUPLICATE.

In a batch, an interruption of one message, such as KeyboardInterrupt, does not change the messages whose
service has ended: steps 5 to 7 are finished for them before the interruption goes on.
"""

import logging
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import IntEnum
from time import monotonic
from typing import TYPE_CHECKING, Self

from history.beside.parking import Parking
from history.errors import ConfigurationError, HistoryUnavailableError, TransactionConflictError
from history.message import Message
from history.shell import Shell
from history.store import HistoryStore
from history.support.rendering import exception_info
from triggers.detection.aftermath import Ending
from triggers.detection.table import Answer, Status
from triggers.events import Cause, RetrievalFailureEvent, publish
from triggers.pipeline.atomic import Removal, Transactions
from triggers.pipeline.blaming import Blame, Culprit
from triggers.pipeline.completion import Completion, HoldTrigger, hold_inside, reason_to_hold
from triggers.pipeline.duplicates import Forward, is_duplicate, tell_of_duplicates
from triggers.pipeline.execution import Execution, Pause, ServiceTransaction
from triggers.pipeline.finding import NO_HISTORY, NOT_ASKED
from triggers.pipeline.judge import Judge
from triggers.pipeline.parking.failures import keep_failures, recall_failures
from triggers.pipeline.parking.lot import ParkingLot, park_raw
from triggers.pipeline.routing import Routing, drop_expired
from triggers.pipeline.run import MACHINERY, UNPARKED_DELAY, Run
from triggers.pipeline.sharing.gathered import GatheredCalls
from triggers.pipeline.sharing.pace import Pace, pace_of
from triggers.pipeline.sharing.turn import Turns, turns_of
from triggers.pipeline.tries import Tries
from triggers.providers.provider import (
    LAST_CALLS,
    Answers,
    Arrival,
    Capabilities,
    Received,
    Receiver,
    Unreadable,
    capabilities_of,
)
from triggers.service.identity import Identify
from triggers.service.outcome import Outcome
from triggers.service.settings import Settings

if TYPE_CHECKING:
    from history.sql.transaction import SqlTransaction
    from triggers.service.tracing import Spans, TracedAnswering

_log = logging.getLogger(__name__)


class Step(IntEnum):
    """The points between which a process may die; reached in this order.

    Only given up messages are PUBLISHED and PARKED; in a batch, the successes are COMPLETED before that.
    """

    RECEIVED = 1
    CLAIMED = 2
    DECIDED = 3
    RUN = 4
    PUBLISHED = 5
    PARKED = 6
    COMPLETED = 7
    ANSWERED = 8


#: Gives duplicates among these the result of their first run.
Recall = Callable[[Sequence[Run]], Awaitable[None]]

#: Receives the results of messages before they are acknowledged.
Witness = Callable[[Sequence[Run]], Awaitable[None]]

#: Receives every step that is reached, for example for the crash tests.
Observer = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePipeline:
    """The processing of a trigger's messages, over a blocking or an asyncio store.

    ``owned`` are the histories that were opened for it; :meth:`close` closes them.
    """

    settings: Settings
    execution: Execution
    judge: Judge
    completion: Completion
    lot: ParkingLot
    shell: Shell
    transactions: Transactions | None = None
    routing: Routing | None = None
    identify: Identify | None = None
    observe: Observer | None = None
    index: int | None = None
    owned: Sequence[HistoryStore] = ()
    forward: Forward | None = None
    hold: HoldTrigger | None = None
    turns: Turns | None = None
    pace: Pace | None = None
    recall: Recall | None = None
    witness: Witness | None = None
    spans: "Spans | None" = None
    tries: Tries = field(default_factory=Tries)

    @property
    def store(self) -> HistoryStore | None:
        """The history in which messages are claimed; None without one."""
        return self.judge.store

    @property
    def parking(self) -> Parking | None:
        """Where messages are parked, except in the local file."""
        return self.lot.primary

    @property
    def at_once(self) -> int:
        """How many messages a worker delivers in its next call."""
        return self.settings.batch if self.pace is None else self.pace.size

    def at(self, index: int) -> Self:
        """Return the same pipeline for the messages of one of the trigger's destinations."""
        return replace(self, index=index)

    def waiting(self, pause: Pause) -> Self:
        """Return the same pipeline, which waits with ``pause`` between the tries of a message."""
        return replace(self, execution=self.execution.waiting(pause))

    def forwarding(self, forward: Forward) -> Self:
        """Return the same pipeline, which sends duplicates with ``forward`` if the trigger wants that."""
        return replace(self, forward=forward)

    def holding(self, hold: HoldTrigger) -> Self:
        """Return the same pipeline, which calls ``hold`` before a fatal failure is recorded that suspends."""
        return replace(self, hold=hold)

    def judged(self, by: Callable[[Judge], Judge]) -> Self:
        """Return the same pipeline with the judge that ``by`` makes of the usual judge."""
        return replace(self, judge=by(self.judge))

    def turning(self, goes_on: Callable[[], bool]) -> Self:
        """Return the same pipeline for one worker. The messages of the worker share calls or transactions."""
        if self.transactions is not None:
            return replace(self, pace=pace_of(self.settings))
        asks = self.identify is not None or (self.routing is not None and self.routing.asks)
        if asks or self.execution.takes_batches:
            return self
        turns = turns_of(self.settings, self.judge.store, self.judge.undecided, goes_on)
        judge = replace(self.judge, turns=turns)
        return replace(self, turns=turns, judge=judge, completion=self.completion.turning(turns))

    def gathering(self) -> Self:
        """Return the same pipeline for many tasks, which share their calls to the history."""
        store = self.judge.store
        if store is None or self.transactions is not None or self.execution.takes_batches:
            return self
        gathered = GatheredCalls(self.settings, store)
        judge = replace(self.judge, gathered=gathered)
        return replace(self, judge=judge, completion=self.completion.gathering(gathered))

    async def deliver(
        self, receiver: Receiver, received: Sequence[Received], can: Capabilities | None = None
    ) -> Sequence[Outcome]:
        """Handle all that a receiver handed over, and answer it; ``can`` is what the receiver supports."""
        can = can or capabilities_of(receiver)
        if self.spans is None:
            return await self._deliver(receiver, received, can)
        messages = [delivery.message for delivery in received if isinstance(delivery, Arrival)]
        with self.spans.processing(messages):
            return await self._deliver(self.spans.answering(receiver), received, can)

    async def _deliver(
        self, receiver: "Receiver | TracedAnswering", received: Sequence[Received], can: Capabilities
    ) -> Sequence[Outcome]:
        self._reach(Step.RECEIVED)
        if len(received) == 1 and isinstance(received[0], Arrival) and self._answers_plainly(can):
            outcomes: Sequence[Outcome] = [await self._deliver_one(receiver, received[0], can)]
        else:
            outcomes = await self._deliver_some(receiver, received, can)
        self._reach(Step.ANSWERED)
        return outcomes

    async def _deliver_some(
        self, receiver: "Receiver | TracedAnswering", received: Sequence[Received], can: Capabilities
    ) -> Sequence[Outcome]:
        arrivals = [delivery for delivery in received if isinstance(delivery, Arrival)]
        if at_once := self.settings.acknowledge_mode == "auto":
            await receiver.acknowledge(arrivals)
        runs = {self._begin(arrival.message): arrival for arrival in arrivals}
        removal = None
        if self.transactions is not None and not at_once:
            removal = await self.transactions.removal(can.sharing_transactions, runs)
        outcomes = [self._after_all_calls(one, can) for one in await self._handle_runs(list(runs), removal)]
        answers: Answers = [] if at_once else list(zip(arrivals, outcomes, strict=True))
        if removal is not None:
            answers = [pair for run, pair in zip(runs, answers, strict=True) if run not in removal.gone]
        if can.taking_failures is not None:
            answers = await can.taking_failures.take_failed(answers)
        done: list[Received] = [arrival for arrival, outcome in answers if outcome.acknowledge]
        back: dict[float, list[Received]] = {}
        for arrival, outcome in answers:
            if not outcome.acknowledge:
                back.setdefault(outcome.recover_after, []).append(arrival)
        for unreadable in (delivery for delivery in received if isinstance(delivery, Unreadable)):
            parked = await self.park_unreadable(unreadable)
            (done if parked else back.setdefault(UNPARKED_DELAY.total_seconds(), [])).append(unreadable)
        if done and (self.turns is None or not await self.turns.acknowledge(done)):
            await receiver.acknowledge(done)
        for seconds, some in back.items():
            await receiver.recover(some, timedelta(seconds=seconds))
        return outcomes

    def _answers_plainly(self, can: Capabilities) -> bool:
        """Whether a message is answered after its end, by the receiver alone."""
        return (
            self.transactions is None
            and can.taking_failures is None
            and self.settings.acknowledge_mode != "auto"
        )

    async def _deliver_one(
        self, receiver: "Receiver | TracedAnswering", arrival: Arrival, can: Capabilities
    ) -> Outcome:
        """Handle one message and answer it: as :meth:`_deliver_some`, with fewer calls."""
        outcome = await self._handle_run(self._begin(arrival.message))
        if not outcome.acknowledge:
            outcome = self._after_all_calls(outcome, can)
            await receiver.recover([arrival], timedelta(seconds=outcome.recover_after))
        elif self.turns is None or not await self.turns.acknowledge([arrival]):
            await receiver.acknowledge([arrival])
        return outcome

    def _after_all_calls(self, outcome: Outcome, can: Capabilities) -> Outcome:
        """Let a message that suspends its trigger come back after the last calls of the other workers.

        They would give it back, and each time counts as a delivery of a message that never ran. An ordered
        trigger gives its messages back in order and immediately, and only one of its workers receives. After
        that time, a broker that pushes would send it to a consumer that is not suspended yet.
        """
        is_plain = not self.settings.ordered and can.pausing is None
        if outcome.acknowledge or outcome.suspension is None or not is_plain:
            return outcome
        return outcome._replace(recover_after=max(outcome.recover_after, LAST_CALLS.total_seconds()))

    async def handle(self, message: Message) -> Outcome:
        """Handle one message: a batch of one."""
        if self.spans is None:
            return await self._handle_run(self._begin(message))
        with self.spans.processing([message]):
            return await self._handle_run(self._begin(message))

    async def _handle_run(self, run: Run, removal: Removal | None = None) -> Outcome:
        """Handle one message: as :meth:`_handle_runs`, with fewer calls."""
        await self._handle_wave([run], removal)
        if is_duplicate(run):
            if self.recall is not None:
                await self.recall([run])
            await tell_of_duplicates([run], self.settings, self.shell, self.forward)
        if self.witness is not None:
            await self.witness([run])
        return run.outcome() if self.spans is None else self._outcomes_of([run])[0]

    async def handle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Detect all with one claim, run the NEW ones in order, and complete them with one write.

        If a uuid occurs twice, it is decided in order: its second message waits until the first is completed.
        """
        if self.spans is None:
            return await self._handle_runs([self._begin(message) for message in messages])
        with self.spans.processing(messages):
            return await self._handle_runs([self._begin(message) for message in messages])

    async def close(self) -> None:
        """Stop renewing leases, and close the connections that were opened for this pipeline."""
        if (leases := self.judge.leases) is not None:
            if self.shell.blocking:
                leases.close()
            else:
                await leases.aclose()
        await self.lot.close()
        for store in self.owned:
            await store.close()

    async def _handle_runs(self, runs: Sequence[Run], removal: Removal | None = None) -> Sequence[Outcome]:
        if len(runs) == 1:
            return [await self._handle_run(runs[0], removal)]
        for wave in _waves(runs):
            await self._handle_wave(wave, removal)
        if self.recall is not None:
            await self.recall(runs)
        await tell_of_duplicates(runs, self.settings, self.shell, self.forward)
        if self.witness is not None:
            await self.witness(runs)
        return self._outcomes_of(runs)

    def _outcomes_of(self, runs: Sequence[Run]) -> Sequence[Outcome]:
        """Return the outcomes, and add them to the tracing span of these messages."""
        outcomes = [run.outcome() for run in runs]
        if self.spans is not None and runs:
            self.spans.tell(outcomes, [run.fence for run in runs])
        return outcomes

    def _begin(self, message: Message) -> Run:
        finding = NO_HISTORY if self.judge.store is None else NOT_ASKED
        run = Run(message, finding, self.settings.silenced, self.settings.redaction)
        # A message that was delivered too often is not read: reading it may have ended its process.
        if self.identify is not None and message.delivery_count <= self.settings.policy.max_delivery_count:
            run.identify(self.identify)
        return run

    async def _handle_wave(self, runs: Sequence[Run], removal: Removal | None = None) -> None:
        """Route, claim, judge, execute and conclude; no uuid occurs twice."""
        for run in runs:
            if run.message.expiration is not None:
                runs = drop_expired(runs, self.settings.name)
                break
        if self.routing is not None and self.routing.asks:
            runs = await self._route(runs, self.routing)
        if not runs:
            return
        if self.transactions is None:
            try:
                await self._run_or_conclude(runs)
                await self.shell.finish(self._conclude(runs))
            except BaseException:
                self.judge.give_up(runs)
                raise
            finally:
                if self.judge.leases is not None:
                    self.judge.leases.let_go(runs)
        else:
            await self._handle_atomically(runs, self.transactions, removal)

    async def _run_or_conclude(self, runs: Sequence[Run]) -> None:
        """Claim, judge and execute. If this is interrupted, conclude what has ended before.

        Otherwise the interruption of one message would leave its neighbours In Doubt.
        """
        try:
            await self._detect_and_run(runs, self.judge)
        except BaseException:
            if ended := [run for run in runs if run.end is not None]:
                await self.shell.finish(self._conclude(ended))
            raise

    async def _route(self, runs: Sequence[Run], routing: Routing) -> Sequence[Run]:
        """Return the runs that have a service; park the messages for which a filter failed."""
        routed = routing.sort(runs)
        if failed := [run for run in runs if run.verdict is not None and run.parks]:
            await self._give_up(failed)
        return routed

    async def _handle_atomically(
        self, runs: Sequence[Run], transactions: Transactions, removal: Removal | None
    ) -> None:
        """Claim, judge, execute and complete in one transaction; publish, park and answer after it.

        If the messages are in the same database, the transaction also acknowledges them.
        """
        if self.judge.bodies is not None:
            await self.judge.compare(runs)
        begun = monotonic()
        error = await self._commit(runs, transactions, removal)
        blamed: list[Run] = []
        if error is None:
            if self.pace is not None:
                self.pace.note(len(runs), monotonic() - begun)
        elif len(runs) > 1:
            runs = blamed = await self._handle_alone(runs, error, transactions, removal)
        else:
            blamed = await self._blame(runs, error)
        others = [run for run in runs if run not in blamed]
        for run in others:
            self._answer(run)
        await keep_failures(others, self.settings, self.store, committed=True)
        if given_up := [run for run in others if run.parks or run.raises_event]:
            await self._give_up(given_up)
        if blamed:
            await self._conclude(blamed)

    async def _blame(self, runs: Sequence[Run], error: Exception) -> list[Run]:
        """Find out why a transaction did not commit; return the messages that cannot be committed."""
        blame = Blame(self.store, self.settings)
        verdicts = {run: await blame.of(run, error) for run in runs}
        if set(verdicts.values()) != {Culprit.NOBODY}:
            # The history answers: a message that has not run until now is recovered, and nothing is
            # suspended.
            error = TransactionConflictError("running another message in its transaction")
        for run, verdict in verdicts.items():
            if verdict is Culprit.NOBODY:
                self.judge.undo(run, error)
        return [run for run, verdict in verdicts.items() if verdict is Culprit.MESSAGE]

    async def _handle_alone(
        self, runs: Sequence[Run], error: Exception, transactions: Transactions, removal: Removal | None
    ) -> list[Run]:
        """Give each message of a failed shared transaction its own transaction: one message may be the cause.

        Return the messages that must not run again: they are In Doubt.
        """
        if self.pace is not None:
            self.pace.slow_down()
        attempted = [run for run in runs if run.attempts]
        culprits = attempted if self.execution.takes_batches else attempted[-1:]
        doubted = await Blame(self.store, self.settings).in_doubt(runs, culprits, error)
        for run in runs:
            if run not in doubted:
                run.start_over()
                await self._handle_atomically([run], transactions, removal)
        return doubted

    async def _commit(
        self, runs: Sequence[Run], transactions: Transactions, removal: Removal | None
    ) -> Exception | None:
        """Do it in one transaction, and return the error that prevented the commit, if any."""
        try:
            if not await self._run_inside(runs, transactions, removal):
                await self._run_inside(runs, transactions, removal, again=True)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001  (any error: nothing is known to be committed)
            return error
        self._reach(Step.COMPLETED)
        if removal is not None:
            removal.committed()
        return None

    async def _run_inside(
        self, runs: Sequence[Run], transactions: Transactions, removal: Removal | None, *, again: bool = False
    ) -> bool:
        """Do it in one transaction; False if its pooled connection was already dead, and nothing was done."""
        begun = await transactions.begin()
        transaction: SqlTransaction | None = None
        try:
            async with begun as transaction:
                await self._detect_and_run(
                    runs, replace(self.judge, store=transaction.history, inside=True), transaction
                )
                if self.hold is not None and (reason := reason_to_hold(runs)) is not None:
                    await hold_inside(transaction, self.settings.name, reason)
                await transactions.settle(transaction, [run for run in runs if run.claimed or run.holds])
                if removal is not None:
                    await removal.take_out(transaction, [run for run in runs if self._is_done_with(run)])
        except HistoryUnavailableError:
            if again or transaction is None or not transaction.is_stale:
                raise
            return False
        return True

    async def _detect_and_run(
        self, runs: Sequence[Run], judge: Judge, transaction: ServiceTransaction | None = None
    ) -> None:
        """Claim all with one call, then decide and execute them, in order."""
        await judge.claim(runs, expect=None if transaction is None else transaction.expect)
        if transaction is not None and any(run.found is not None for run in runs):
            transaction.resume()
        self._reach(Step.CLAIMED)
        together: list[Run] = []
        takes_batches = self.execution.takes_batches
        for run in runs:
            decision = await judge.judge(run)
            self._reach(Step.DECIDED)
            if not decision.runs:
                continue
            if takes_batches:
                together.append(run)
                continue
            await self.execution.run(run, transaction)
            self._reach(Step.RUN)
        if together:
            await self.execution.run_together(together, transaction)
            self._reach(Step.RUN)

    async def _conclude(self, runs: Sequence[Run]) -> None:
        """Complete the successes first, so that nothing that a failure needs can keep them In Doubt."""
        done: list[Run] = []
        others: list[Run] = []
        for run in runs:
            end = run.end
            if end is not None and end.error is None and run.finding.recorded:
                done.append(run)
            else:
                self._answer(run)
                if end is not None or run.parks or run.raises_event or run.holds:
                    others.append(run)
        if done:
            await self._settle(done)
        if others:
            if self.hold is not None and (reason := reason_to_hold(others)) is not None:
                await self.hold(reason)
            await keep_failures(others, self.settings, self.store)
            await self._give_up(others)
            if ended := [run for run in others if (run.claimed or run.holds) and run.is_kept]:
                await self._settle(ended)

    async def _give_up(self, runs: Sequence[Run]) -> None:
        """Publish an event for given up messages and park them, as the table says."""
        await recall_failures(runs, self.settings, self.store)
        for run in runs:
            if run.raises_event:
                await self._publish(run)
        if kept := [run for run in runs if run.parks]:
            await self._park(kept)

    async def _settle(self, runs: Sequence[Run]) -> None:
        unsettled = await self.completion.settle(runs)
        if not unsettled:
            self._reach(Step.COMPLETED)
        elif kept := [run for run in unsettled if run.end is not None and run.end.error is None]:
            await self._park(kept)

    def _is_done_with(self, run: Run) -> bool:
        """Whether the only remaining step for a message is to acknowledge it."""
        if self.settings.on_duplicate is not None and is_duplicate(run):
            return False
        return _answer_of(run) is Answer.ACKNOWLEDGE and not run.parks and not run.raises_event

    def _answer(self, run: Run) -> None:
        """Note the answer of the table to the provider."""
        assert run.decision is not None  # noqa: S101  (every run is judged before it is concluded)
        run.acknowledge = _answer_of(run) is Answer.ACKNOWLEDGE
        if self.tries.counts or not run.acknowledge:
            self.tries.note(run, self.settings.redelivery)
        if (run.end is not None or run.attempts) and run.error is not None and not run.acknowledge:
            self._tell(run)
        if run.decision.status is Status.IN_DOUBT and not run.parks and run.acknowledge:
            dropped = run.end is None
            level = logging.ERROR if dropped else logging.WARNING
            _log.log(level, "%s %s", run.named, run.reason, extra=self._extra(run))

    async def _park(self, runs: Sequence[Run]) -> None:
        parked = await self.lot.park([run.copy(self.settings.name) for run in runs])
        for run in runs:
            run.parked = parked
            run.acknowledge = run.acknowledge and parked
            self._tell(run, "" if parked else "NOT PARKED, because no place answers; delivered again later. ")
        self._reach(Step.PARKED)

    def _tell(self, run: Run, before: str = "") -> None:
        """Log the verdict, the error behind it, and what to do next if a person has to decide."""
        verdict, _, why = run.reason.partition(": ")
        failure = "" if run.error is None else f"{run.told_of(run.error)}; "
        # A name that is cut short, or has escapes, is not the uuid that the command needs.
        is_typed = run.parked and run.named == run.message.uuid
        ask = f". Next: doubtless why {shlex.quote(run.named)}" if is_typed else ""
        trace = None if run.error is None or _is_told_already(run) else run.trace
        info = (
            None
            if trace is None or run.error is None
            else exception_info(run.error, trace, without=MACHINERY, redact=run.redact)
        )
        text = f"\n{trace}" if trace is not None and info is None else ""
        line = f"{before}{verdict}: {failure}{why}{ask}{text}"
        _log.warning("%s %s", run.named, line, exc_info=info, extra=self._extra(run))

    async def _publish(self, run: Run) -> None:
        run.event = run.make_event(self.settings.name, *self._origin(run.message))
        await publish(run.event, self.shell)
        self._reach(Step.PUBLISHED)

    async def park_unreadable(self, unreadable: Unreadable) -> bool:
        """Park a delivery that is not a message, whole, and log it."""
        name, redact = self.settings.name, self.settings.redaction
        destination, index = self._origin()
        if redact is not None:
            unreadable = replace(unreadable, problem=redact(unreadable.problem))
        parked = await park_raw(self.lot, unreadable, trigger=name, destination=destination)
        event = RetrievalFailureEvent(
            trigger_name=name,
            destination=destination,
            destination_index=index,
            delivery_count=-1,
            exception_message=unreadable.problem,
            cause=Cause.UNREADABLE,
        )
        await publish(event, self.shell)
        return parked

    def _origin(self, message: Message | None = None) -> tuple[str, int]:
        """Return the destination that a delivery came from, and its index among the trigger's."""
        index = self.settings.index_of(message) if self.index is None else self.index
        return self.settings.destinations[index], index

    def _reach(self, step: Step) -> None:
        if self.observe is not None:
            self.observe(step)

    def _extra(self, run: Run) -> dict[str, object]:
        status = None if run.decision is None else run.decision.status
        return {"trigger": self.settings.name, "uuid": run.message.uuid, "fence": run.fence, "status": status}


def _answer_of(run: Run) -> Answer | None:
    decision = run.decision if run.end is None else run.end.aftermath
    return None if decision is None else decision.answer


def _is_told_already(run: Run) -> bool:
    """Whether an earlier delivery already logged the traceback of an error that is retried repeatedly."""
    transient = run.end is not None and run.end.ending is Ending.TRANSIENT
    return transient and not run.acknowledge and run.message.delivery_count > 1


def _waves(runs: Sequence[Run]) -> Iterable[Sequence[Run]]:
    """Split runs so that no uuid occurs twice in one wave, and each wave waits for the one before it."""
    if len({run.message.uuid for run in runs}) == len(runs):
        return [runs]
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
