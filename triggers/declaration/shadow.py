"""Shadow mode: judge and record every message, and run all of them, whatever the verdict.

A team tries detection on a running system before it trusts it. Each message runs as before. The outcome, the
log and a tally say which messages would have been stopped.

==================================  ====================================================================
the verdict                         in shadow
==================================  ====================================================================
NEW                                 runs, and is recorded, as without shadow
DUPLICATE                           runs again; the entry stays as it is
In Doubt, over an entry of a run    runs under the entry, which it takes over and completes
that has died
In Doubt otherwise                  runs
its original still runs             runs concurrently; the entry still belongs to the original
rejected                            runs, even without an identity
the history is away                 runs immediately; nothing is recorded, now or later
==================================  ====================================================================

A verdict parks nothing, publishes no event and suspends no trigger. A run that has failed means the same as
without shadow, except that only a consumer parks the message, because it has no other place for it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock

from history.entry import Settlement
from history.store import HistoryStore
from triggers.detection.aftermath import Aftermath
from triggers.detection.sentences import explain_verdict
from triggers.detection.table import Answer, Decision, Found, Status
from triggers.pipeline.atomic import Removal
from triggers.pipeline.completion import EntryCompletion
from triggers.pipeline.finding import found_in
from triggers.pipeline.judge import Judge
from triggers.pipeline.pipeline import MessagePipeline
from triggers.pipeline.run import Run
from triggers.providers.provider import Capabilities, Received, Receiver
from triggers.service.outcome import Outcome

_log = logging.getLogger(__name__)

#: The log gets a sum after this many messages.
SUM_EVERY = 1000


class ShadowTally:
    """Counts messages that ran in shadow, and how many would have been stopped; for all threads."""

    def __init__(self, trigger: str) -> None:
        self._trigger = trigger
        self._lock = Lock()
        self._seen = self._told = 0
        self._stopped: Counter[str] = Counter()

    def count(self, would_have: str | None) -> None:
        """Count one message; log a sum at intervals."""
        with self._lock:
            self._seen += 1
            if would_have is not None:
                self._stopped[would_have] += 1
            due = self._seen - self._told >= SUM_EVERY
        if due:
            self.tell()

    def tell(self) -> None:
        """Log the sum since this process began, if there are new messages."""
        with self._lock:
            if self._seen == self._told:
                return
            self._told = self._seen
            seen, stopped = self._seen, dict(self._stopped)
        kinds = (
            ", ".join(f"{number} {outcome_kind}" for outcome_kind, number in sorted(stopped.items()))
            or "none"
        )
        _log.warning(
            "trigger %s: in shadow %d messages ran; of these would have been stopped: %s",
            self._trigger,
            seen,
            kinds,
            extra={"trigger": self._trigger},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowDecision(Decision):
    """The decision to run a message that would have been stopped: ``would_have`` as what, ``verdict`` why."""

    would_have: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowJudge(Judge):
    """Judges as usual and says which messages it would have stopped, but stops none."""

    async def claim(self, runs: Sequence[Run], *, expect: Callable[[], None] | None = None) -> None:
        """Claim what can be claimed; a history that refuses its settings counts as unavailable."""
        try:
            await Judge.claim(self, runs, expect=expect)
        except Exception as error:  # noqa: BLE001  (any error: what was there before goes on)
            self._note_absence(error, runs)

    async def judge(self, run: Run) -> Decision:
        """Judge, and let the message run whatever the verdict is."""
        decision = await Judge.judge(self, run)
        if decision.runs:
            return decision
        await self._leave_entry(run, decision)
        would_have, verdict = would_have_been(decision), explain_verdict(decision)
        run.problem = None
        run.decision = ShadowDecision(
            row=decision.row,
            index=decision.index,
            status=Status.NEW,
            runs=True,
            would_have=would_have,
            verdict=verdict,
        )
        extra = {"trigger": self.settings.name, "uuid": run.message.uuid, "would_have": would_have}
        notes = "".join(f"; {note}" for note in run.notes)
        _log.warning("%s: in shadow it runs; without: %s%s", run.named, verdict, notes, extra=extra)
        return run.decision

    async def _leave_entry(self, run: Run, decision: Decision) -> None:
        """Leave the run without an entry to write into, except the entry of a run that has died."""
        if run.found is None:
            return
        died = found_in(run.found) is Found.STARTED and decision.status is not Status.DUPLICATE
        if died and await self._take_over(run):
            return
        run.finding = run.finding._replace(fence=None, owner=None)


def would_have_been(decision: Decision) -> str:
    """Return the verdict on a message if it had not run: "duplicate", "in doubt", "rejected", ..."""
    if decision.rejected:
        return "rejected"
    if decision.status is not None:
        return decision.status.value.lower().replace("_", " ")
    return "in progress" if decision.answer is Answer.RECOVER_LATER else "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowCompletion(EntryCompletion):
    """Records once how runs ended: nobody waits for a history, and no message is parked for it."""

    async def settle(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Try to record the ends; a failure is noted, and the message is acknowledged nevertheless."""
        answers = [run.acknowledge for run in runs]
        for run in await EntryCompletion.settle(self, runs):
            _log.warning("%s: %s", run.named, run.notes[-1], extra={"trigger": self.settings.name})
        for run, answer in zip(runs, answers, strict=True):
            run.acknowledge = answer
        return []

    async def _write(self, store: HistoryStore, settlements: Sequence[Settlement]) -> Sequence[bool]:
        return await store.settle(self.settings.name, settlements)


@cache
def left_to_its_caller(after: Aftermath) -> Aftermath:
    """Return the meaning of a run's end if nothing is parked."""
    return replace(after, park=False)


@dataclass(frozen=True, kw_only=True)
class ShadowPipeline(MessagePipeline):
    """The pipeline of a trigger in shadow. ``delivering``: a consumer of ours will answer the provider."""

    tally: ShadowTally
    delivering: bool = False

    async def deliver(
        self, receiver: Receiver, received: Sequence[Received], can: Capabilities | None = None
    ) -> Sequence[Outcome]:
        """Handle all messages that a receiver handed over, and answer them."""
        return await MessagePipeline.deliver(replace(self, delivering=True), receiver, received, can)

    async def close(self) -> None:
        """Log the sum, and close as without shadow."""
        self.tally.tell()
        await super().close()

    async def _handle_run(self, run: Run, removal: Removal | None = None) -> Outcome:
        return self._told(run, await super()._handle_run(run, removal))

    async def _handle_runs(self, runs: Sequence[Run], removal: Removal | None = None) -> Sequence[Outcome]:
        outcomes = await super()._handle_runs(runs, removal)
        if len(runs) == 1:  # handled, and counted, as a single message
            return outcomes
        return [self._told(run, outcome) for run, outcome in zip(runs, outcomes, strict=True)]

    def _told(self, run: Run, outcome: Outcome) -> Outcome:
        decision = run.decision
        if not isinstance(decision, ShadowDecision):
            self.tally.count(None)
            return outcome
        self.tally.count(decision.would_have)
        return outcome._replace(would_have=decision.would_have)

    async def _conclude(self, runs: Sequence[Run]) -> None:
        for run in runs:
            end = run.end
            if end is not None and end.aftermath.park and not self.delivering:
                run.end = end._replace(aftermath=left_to_its_caller(end.aftermath))
        await super()._conclude(runs)
