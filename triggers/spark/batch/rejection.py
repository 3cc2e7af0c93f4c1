"""Give up the new rows of a batch after its function has failed fatally, with ``on_fatal="reject"``."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from history.shell import ThreadShell
from history.support.rendering import class_of, text_of
from triggers.detection.aftermath import Ending
from triggers.detection.table import Count, Facts, HistoryUse, Word, decide
from triggers.events import RetrievalFailureEvent, is_heard, publish
from triggers.pipeline.end import failed
from triggers.pipeline.finding import Finding
from triggers.pipeline.run import Run
from triggers.service.failures import FatalError
from triggers.spark.batch.claims.verdicts import KEY
from triggers.spark.batch.frames import ROWS_OF_A_JOB, brought
from triggers.spark.batch.owners import BatchRun
from triggers.spark.batch.session import described, persisted
from triggers.spark.connections import history_at, patiently
from triggers.spark.rows.arrow import RecordBatch, mapped, rows_of, text_batch
from triggers.spark.rows.columns import identity
from triggers.spark.rows.messages import message_of_keyed
from triggers.spark.settings import BatchSettings


def reject(new: DataFrame, settings: BatchSettings, run: BatchRun, error: Exception, *, rows: int) -> None:
    """Park each of the ``rows`` rows, as the second table orders after a fatal failure; publish events.

    Without a subscriber for events there are none. Many rows are kept, if Spark may keep them, and brought to
    the driver after all partitions are parked; a few rows come with the job that parks.
    """
    keyed = new.selectExpr("*", f"{identity(settings.columns, new.schema)} AS {KEY}")
    heard = is_heard(settings.name)
    failure = Failure(class_of(error), text_of(error, settings.trigger.redaction))
    work = Rejection(settings.shipped, run, failure, heard).reject
    parked = mapped(keyed, work, "event string", name="doubtless_reject")
    expected = rows if heard else 0
    with described(new.sparkSession, f"doubtless {settings.name}: rejects the batch"):
        kept = expected > ROWS_OF_A_JOB and persisted(parked, settings.storage)
        if kept:
            parked.count()
        for document in brought(parked, expected):
            event = RetrievalFailureEvent.model_validate_json(document)
            patiently(settings.patience, publish, event, ThreadShell())
        if kept:
            parked.unpersist()


@dataclass(frozen=True, slots=True)
class Failure:
    """The exception of the user's function as text: an exception may not survive the transport."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """The values that a task needs to park rows."""

    settings: BatchSettings
    run: BatchRun
    failure: Failure
    is_heard: bool

    def reject(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Park the rows, and yield their events, if there is a subscriber."""
        settings = self.settings
        lot = history_at(settings.parking or settings.history).parking
        for batch in batches:
            runs = [self._run(values) for values in rows_of(batch)]
            if runs:
                parked = [run.copy(settings.name).model_copy(update=self._error_fields) for run in runs]
                patiently(settings.patience, lot.park, parked)
            events = [self._event(run).model_dump_json() for run in runs] if self.is_heard else []
            yield text_batch({"event": events})

    def _run(self, values: dict[str, Any]) -> Run:
        settings, key = self.settings, values.pop(KEY)
        destination = settings.trigger.destination
        message = message_of_keyed(values, settings.columns, destination=destination, uuid=key)
        run = Run(message, Finding(HistoryUse.ON, owner=self.run.owner.token))
        run.decision = decide(
            Facts(count=Count.FIRST, history=HistoryUse.ON, word=Word.NONE), settings.trigger.policy
        )
        error = FatalError(self.failure.text)
        run.end = failed(Ending.FATAL, error, settings.trigger.policy, recorded=True)
        return run

    def _event(self, run: Run) -> RetrievalFailureEvent:
        settings = self.settings
        event = run.make_event(settings.name, settings.trigger.destination)
        update = {"exception_class": self.failure.kind, "exception_message": self.failure.text}
        return event.model_copy(update=update)

    @property
    def _error_fields(self) -> dict[str, str]:
        return {"error_class": self.failure.kind, "error_message": self.failure.text}
