"""One run of one micro-batch; its steps are told of in :mod:`triggers.spark.foreach_batch`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history.entry import EntryOutcome
from history.errors import HistoryUnavailableError
from history.progress import BatchRecord, BatchState
from triggers.events import RetrievalFailureEvent, publish
from triggers.failures import is_transient
from triggers.spark.aside import EVENT, PARKED, REASON, RUNS, STATUS, looked_at_again
from triggers.spark.claiming import COUNT, KEY, VERDICT, Verdict, with_verdicts
from triggers.spark.columns import quoted
from triggers.spark.connections import history_at, patiently
from triggers.spark.ledger import Ledger, run_of
from triggers.spark.owners import BatchRun
from triggers.spark.plainly import plainly
from triggers.spark.rejecting import reject
from triggers.spark.report import BatchReport
from triggers.spark.settings import BatchSettings
from triggers.spark.steps import BatchStep
from triggers.spark.tally import Tally


@dataclass(slots=True)
class Batch:
    """One run of one micro-batch."""

    function: Callable[[DataFrame, int], Any]
    settings: BatchSettings
    ledger: Ledger
    record: BatchRecord
    notes: Sequence[str]
    batch: DataFrame
    reach: Callable[[BatchStep], None]

    def process(self) -> BatchReport:
        """Judge, run, complete; return the report."""
        started = time.perf_counter()
        run = run_of(self.record)
        verdicts = with_verdicts(self.batch, self.settings, run)
        aside: DataFrame | None = None
        try:
            with plainly(self.batch.sparkSession):
                told = Tally.of_verdicts(verdicts.persist(), self.settings.name)
            self.reach(BatchStep.CLAIMED)
            new = verdicts.filter(f"{VERDICT} = {Verdict.NEW:d}").drop(KEY, COUNT, VERDICT)
            if told.aside:
                aside = looked_at_again(verdicts, self.settings, run).persist()
                told = told.with_aside(aside)
                self._tell(aside)
                if told.runs_aside:
                    new = new.unionByName(aside.filter(RUNS).select(*map(quoted, new.columns)))
                self.reach(BatchStep.KEPT_ASIDE)
            if told.runs:
                told = self._run(new, run, told)
            report = told.report(self.record, self.notes, time.perf_counter() - started)
            state = BatchState.FAILED if told.failed else BatchState.COMPLETED
            self.ledger.note(self.record, state, report.counts)
            return report
        finally:
            for held in (verdicts, aside):
                if held is not None:
                    held.unpersist()

    def _tell(self, aside: DataFrame) -> None:
        """Publish the events of what was given up, and hand over what was kept aside."""
        for row in aside.filter(F.col(EVENT).isNotNull()).select(EVENT).toLocalIterator():
            event = RetrievalFailureEvent.model_validate_json(row[0])
            patiently(self.settings.patience, publish, event, blocking=True)
        if self.settings.parked_to is not None:
            shown = [*map(quoted, self.batch.columns), STATUS, REASON]
            self.settings.parked_to(aside.filter(PARKED).select(*shown), self.record.batch)

    def _run(self, new: DataFrame, run: BatchRun, told: "Tally") -> "Tally":
        """Run the user's function and complete the batch, or do what its failure asks for."""
        self.ledger.note(self.record, BatchState.RUNNING)
        self.reach(BatchStep.ENTERED)
        error = self._attempts(new)
        if error is None:
            self.reach(BatchStep.RUN)
            self._settle(run, EntryOutcome.OK, told)
            self.reach(BatchStep.COMPLETED)
            return told
        transient = is_transient(error, self.settings.trigger.transient)
        if transient:
            self._settle(run, None, told)
            self.ledger.note(self.record, BatchState.RELEASED)
        if transient or self.settings.on_fatal == "raise" or _was_stopped(error):
            raise error
        reject(new, self.settings, run, error)
        self._settle(run, EntryOutcome.FAILED, told)
        return told.as_failed()

    def _attempts(self, new: DataFrame) -> Exception | None:
        """Call the user's function, again where the failure is transient and the settings say so."""
        retry, failure = self.settings.trigger.retry, None
        for attempt in range(retry.max_attempts + 1):
            if attempt:
                time.sleep(retry.pause(attempt))
            try:
                self.function(new, self.record.batch)
            except Exception as error:  # noqa: BLE001  (the function is user code)
                failure = error
                if not is_transient(error, self.settings.trigger.transient):
                    break
            else:
                return None
        return failure

    def _settle(self, run: BatchRun, outcome: EntryOutcome | None, told: "Tally") -> None:
        """Complete or release what the run owns.

        Raises:
            HistoryUnavailableError: it stayed away, or does not know the batch any more.
        """
        store = history_at(self.settings.history)
        owners = [run.owner] * bool(told.new) + [run.resolved_owner] * bool(told.runs_aside)
        for owner in owners:
            if not patiently(self.settings.patience, store.settle_batch, self.settings.name, owner, outcome):
                raise HistoryUnavailableError(f"settling {owner.token}: it has forgotten what was claimed")


def _was_stopped(error: Exception) -> bool:
    """Whether somebody stopped the query, which is no failure of its rows."""
    told = str(error)
    return "InterruptedException" in told or "cancelled" in told
