"""One run of one micro-batch; its steps are listed in :mod:`triggers.spark.decorator`."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from pyspark.sql import DataFrame

from history.beside.progress import Ending
from history.entry import EntryOutcome
from history.errors import ConfigurationError
from history.shell import ThreadShell
from history.store import BatchOwner
from history.store.progress import HANDED_OVER, BatchRecord, BatchState
from history.support.rendering import exception_info, repr_of, told_of
from triggers.events import RetrievalFailureEvent, publish
from triggers.service.failures import TransientError
from triggers.spark.batch.determinism import check_replay
from triggers.spark.batch.frames import BatchFrames, frames_of
from triggers.spark.batch.leases import BatchLease
from triggers.spark.batch.ledger import Ledger, run_of
from triggers.spark.batch.owners import BatchRun
from triggers.spark.batch.rejection import reject
from triggers.spark.batch.sink_commits import as_not_committed, asked, info_of, is_committed
from triggers.spark.batch.tally import BatchTally
from triggers.spark.batch_info import BatchInfo, BatchReport
from triggers.spark.connections import patiently
from triggers.spark.failures import is_being_stopped, is_cancellation
from triggers.spark.settings import BatchSettings

_log = logging.getLogger(__name__)

#: The note in the report of a batch that the sink had committed before the driver died.
FOUND_COMMITTED = "the sink had committed it already"


class RowsInProgressError(TransientError):
    """Other running processes have rows of a batch. ``begin_anew`` if it did not wait for them."""

    def __init__(self, tally: BatchTally, record: BatchRecord) -> None:
        super().__init__(
            f"{tally.in_progress} rows of batch {record.batch} of query {record.query} are being processed "
            f"elsewhere, such as {tally.example}; raise patience above the time that this may take"
        )
        self.begin_anew = tally.gives_way > 0


class ComesAgainError(Exception):
    """An earlier run of the batch has completed rows of it, but its record is gone."""


class BatchStep(IntEnum):
    """The last completed step; :mod:`triggers.spark.decorator` says what a later run finds."""

    BEGUN = 1
    CLAIMED = 2
    KEPT_ASIDE = 3
    ENTERED = 4
    RUN = 5
    COMPLETED = 6
    NOTED = 7


#: Receives every step that is reached, for example for the crash tests.
BatchObserver = Callable[[BatchStep], None]


@dataclass(slots=True)
class Batch:
    """One run of one micro-batch."""

    function: Callable[[DataFrame, BatchInfo], Any]
    settings: BatchSettings
    ledger: Ledger
    record: BatchRecord
    notes: Sequence[str]
    batch: DataFrame
    reach: Callable[[BatchStep], None]
    abandoned: tuple[BatchRun, ...] = ()
    rows_before: int | None = None

    def process(self) -> BatchReport:
        """Judge, run, complete; return the report.

        Raises:
            ComesAgainError: the batch must begin again as a batch that comes again.
            RowsInProgressError: another process has rows of it; its own claims are released.
            Exception: the exception of the function, or of ``committed``.
        """
        committed = is_committed(self.settings, self.record)
        run = replace(run_of(self.record), abandoned=self.abandoned, committed=committed)
        if run.committed:
            # Before it owns any entry: a later run must not conclude that its rows never ran.
            self.ledger.note(self.record, BatchState.RUNNING)
            self.notes = [*self.notes, FOUND_COMMITTED]
        else:
            self.settings = as_not_committed(self.settings, self.record)
        with BatchLease(self.settings, run) as lease:
            return self._process(run, lease)

    def _process(self, run: BatchRun, lease: BatchLease) -> BatchReport:
        started = time.perf_counter()
        # An earlier run has another record, unless the record is forgotten.
        again = self.record.attempt > 1
        frames = frames_of(self.batch, self.settings, run, comes_again=again, rows_before=self.rows_before)
        run = frames.run
        lease.renew_also(*run.claimers())
        try:
            tally = frames.count()
            self.reach(BatchStep.CLAIMED)
            self._check_partitions(run, tally)
            self._check_replay(run, tally)
            if tally.aside:
                lease.renew_also(run.resolved_owner)
                tally = frames.look_again(tally)
                self._give_back_if_in_progress(run, tally)
                self._publish(frames, tally)
                self.reach(BatchStep.KEPT_ASIDE)
            if self.settings.on_replay == "execute" and not run.committed:
                tally = tally.with_whole_batch(unfinished=bool(self.record.unfinished))
            ended = tally
            if tally.runs and not run.committed:
                ended = self._run(frames.new(tally), run, tally)
            report = ended.report(self.record, self.notes, time.perf_counter() - started)
            self._end(run, tally, ended, report.counts)
            return replace(report, seconds=time.perf_counter() - started)
        finally:
            frames.release()

    def _check_partitions(self, run: BatchRun, tally: BatchTally) -> None:
        """Release the claims of partitions that met rows which an earlier run of the batch has completed."""
        if run.partitions and tally.done:
            self.ledger.give_back(self.record, run.owners(claimed=True, resolved=False))
            raise ComesAgainError

    def _check_replay(self, run: BatchRun, tally: BatchTally) -> None:
        """Release the claims on rows that an earlier run may have handed over under other identities."""
        try:
            check_replay(self.settings, self.record, tally)
        except ConfigurationError:
            self.ledger.give_back(self.record, run.owners(claimed=tally.new > 0, resolved=False))
            raise

    def _give_back_if_in_progress(self, run: BatchRun, tally: BatchTally) -> None:
        if tally.in_progress:
            if not run.committed:  # else it owns rows that the sink has
                self.ledger.give_back(self.record, run.owners(claimed=True, resolved=True))
            raise RowsInProgressError(tally, self.record)

    def _publish(self, frames: BatchFrames, tally: BatchTally) -> None:
        """Publish the events of rows that were given up, and hand over the parked rows."""
        for document in frames.events(tally):
            event = RetrievalFailureEvent.model_validate_json(document)
            patiently(self.settings.patience, publish, event, ThreadShell())
        if self.settings.parked_to is not None:
            self.settings.parked_to(frames.parked(), self.record.batch)

    def _run(self, new: DataFrame, run: BatchRun, tally: BatchTally) -> BatchTally:
        """Run the user's function, or handle its failure; return how the batch is to end."""
        self.ledger.note(self.record, BatchState.RUNNING, {HANDED_OVER: tally.new + tally.runs_aside})
        self.reach(BatchStep.ENTERED)
        error = self._attempts(new)
        if error is None:
            self.reach(BatchStep.RUN)
            return tally
        transient = self.settings.trigger.is_transient(error)
        # If a sink knows its commits, the next run asks it: the data may still arrive there.
        if transient and self.settings.committed is None:
            owners = _owners(run, tally)
            self.ledger.end(self.record, owners, Ending(outcome=None, state=BatchState.RELEASED))
        # Rows that an earlier run has completed cannot be given up.
        if transient or self.settings.on_fatal == "raise" or tally.again or self._was_stopped(error):
            raise error
        reject(new, self.settings, run, error, rows=tally.new + tally.runs_aside)
        return tally.as_failed()

    def _attempts(self, new: DataFrame) -> Exception | None:
        """Call the user's function, and again if the failure is transient and the settings allow it."""
        retry, failure = self.settings.trigger.retry, None
        for attempt in range(retry.max_attempts + 1):
            if attempt:
                time.sleep(retry.pause(attempt))
            try:
                self.function(new, info_of(self.settings, self.record))
            except Exception as error:  # noqa: BLE001  (the function is user code)
                failure = error
                if self._has_committed_though(error):
                    return None
                if not self.settings.trigger.is_transient(error):
                    break
            else:
                return None
        return failure

    def _has_committed_though(self, error: Exception) -> bool:
        """Ask whether the sink has the batch after a failed function, for example without an answer.

        Raises:
            Exception: the function's, if the sink does not know: the next run of the batch asks it again.
        """
        redact = self.settings.trigger.redaction
        try:
            committed = asked(self.settings, self.record)
        except Exception as silence:  # noqa: BLE001  (it calls user code)
            text = "the sink does not say whether it has batch %s: %s"
            info = exception_info(silence, redact=redact)
            _log.error(text, self.record.batch, told_of(silence, redact), exc_info=info, extra=self._extra)
            raise error from None
        if committed:
            text = "batch %s has failed, but was committed: %s"
            _log.warning(text, self.record.batch, repr_of(error, redact), extra=self._extra)
        return committed

    @property
    def _extra(self) -> dict[str, object]:
        return {"trigger": self.settings.name}

    def _end(self, run: BatchRun, tally: BatchTally, ended: BatchTally, counts: Mapping[str, int]) -> None:
        """Complete all entries of the run, and record it, in one write: no later run finds half of it."""
        owners = _owners(run, tally)
        outcome, state = EntryOutcome.OK, BatchState.COMPLETED
        if ended.failed:
            outcome, state = EntryOutcome.FAILED, BatchState.FAILED
        self.ledger.end(self.record, owners, Ending(outcome=outcome, state=state, counts=counts))
        self.reach(BatchStep.COMPLETED)

    def _was_stopped(self, error: Exception) -> bool:
        """Whether somebody stopped the query or cancelled its jobs; its rows did not cause the failure."""
        return is_being_stopped(self.batch.sparkSession, self.record.lineage) or is_cancellation(error)


def _owners(run: BatchRun, tally: BatchTally) -> Sequence[BatchOwner]:
    """Return the owners of the rows that the user's function received."""
    partitions = tally.partitions if run.partitions else None
    return run.owners(claimed=tally.new > 0, resolved=tally.runs_aside > 0, partitions=partitions)
