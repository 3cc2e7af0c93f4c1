"""A trigger service that runs row by row on the executors: ``trigger.foreach_batch(...)``.

Each task takes its rows through the trigger's own pipeline, a unit at a time: one claim, the services in
order, one completion. So everything that ``@trigger`` promises holds for a row as it does for a message. With
``concurrency`` several units of a task run at once, see :mod:`triggers.spark.row_service.running`. A row that
is to be given back makes the batch fail in the end: when Spark tries it again, what was processed is a
duplicate.

An executor that dies leaves the units that it was at STARTED, and what Spark then runs in its place finds
these rows In Doubt. So does a speculative twin, unless the trigger has a lease: then it waits. Retrieval
failure events are published on the executors, to the handlers of the modules that are loaded there.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from pydantic import ValidationError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from history.errors import ConfigurationError
from history.message import Message
from history.store import CLAIM_BATCH
from history.store.progress import HANDED_OVER, KEPT_BATCHES, BatchRecord, BatchState
from triggers.detection.table import Status
from triggers.pipeline.protocol import Pipeline
from triggers.providers.provider import Unreadable
from triggers.service.failures import TransientError
from triggers.service.outcome import Outcome
from triggers.spark.batch.claims.verdicts import COUNT, KEY, prepared
from triggers.spark.batch.determinism import PlanCheck, check_rows_again
from triggers.spark.batch.ledger import Ledger, identity_of
from triggers.spark.batch.purging import Purging
from triggers.spark.batch.session import described
from triggers.spark.batch.tally import counted
from triggers.spark.connections import LONGEST_PAUSE
from triggers.spark.report import BatchReport, RowCounts, tell
from triggers.spark.row_service.pacing import check_pace
from triggers.spark.row_service.running import Result, Values, running, units_of
from triggers.spark.row_service.shipping import Shippable, packed, unpacked
from triggers.spark.rows.arrow import RecordBatch, chunks_of, mapped, text_batch
from triggers.spark.rows.columns import check_frame
from triggers.spark.rows.messages import NoIdentityError, identity_of_row, message_of, raw_of
from triggers.spark.settings import BatchSettings, Columns

#: What became of a row, besides the three verdicts.
REJECTED, UNMATCHED, UNDECIDED = "REJECTED", "UNMATCHED", "UNDECIDED"
_STATUSES = (*Status, REJECTED, UNMATCHED, UNDECIDED)


class RowService:
    """What ``trigger.foreach_batch`` makes of a trigger; give it to ``writeStream.foreachBatch``.

    ``reports`` and :meth:`write_stream` are as of :class:`~triggers.spark.foreach_batch.ForeachBatch`.
    ``counts`` adds up what became of rows, those of batches that have to come again, too.

    Guarantee: that of the trigger, for each row.
    """

    def __init__(
        self, trigger: Shippable, settings: BatchSettings, *, calls_per_second: float | None = None
    ) -> None:
        _check(trigger)
        if calls_per_second is not None:
            check_pace("calls_per_second", calls_per_second)
        self.trigger = trigger
        self._calls_per_second = calls_per_second
        self.settings = settings
        self.reports: deque[BatchReport] = deque(maxlen=KEPT_BATCHES)
        self.counts = RowCounts()
        self._shipped: bytes | None = None
        self._purging = Purging(settings)
        self._plans = PlanCheck(settings.columns)

    @property
    def name(self) -> str:
        """The namespace in the history."""
        return self.settings.name

    def write_stream(self, stream: DataFrame) -> DataStreamWriter:
        """Return ``stream.writeStream.foreachBatch(self)``, once the stream has the columns it needs.

        Raises:
            ConfigurationError: naming a column that it lacks, whose type tells no identity, or that
                differs each time that it is computed, such as one by ``uuid()``.
        """
        check_frame(self.settings.columns, stream)
        self._plans.stream(stream)
        return stream.writeStream.foreachBatch(self)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Run the service for each NEW row of one micro-batch; Spark calls this.

        Raises:
            ConfigurationError: the stream's columns do not do, the trigger cannot travel, or a batch comes
                again with other identities.
            TransientError: rows are to be given back, so that the batch must come again.
        """
        started = time.perf_counter()
        check_frame(self.settings.columns, batch)
        if self._shipped is None:
            self._shipped = packed(self.trigger, self.settings.history)
        ledger, identity = Ledger(self.settings), identity_of(batch, self.settings.query)
        self._plans.batch(batch, identity.lineage)
        record, notes = ledger.begin(identity, batch_id)
        rows = prepared(batch, self.settings)
        check_rows_again(rows, self.settings, record)
        earlier = dict(record.counts)
        ledger.note(record, BatchState.RUNNING, earlier)
        counts, reason = self._run(rows)
        report = _report(counts, record, notes, time.perf_counter() - started)
        # Of a batch that must come again, too: what it has processed is a duplicate then.
        self.counts.add(report)
        if undecided := counts.get(UNDECIDED, 0):
            ran = {HANDED_OVER: earlier.get(HANDED_OVER, 0) + report.new}
            ledger.note(record, BatchState.RELEASED, ran)
            raise TransientError(
                f"{undecided} rows of batch {batch_id} are undecided, so the batch must come again: {reason}"
            )
        ledger.note(record, BatchState.COMPLETED, report.counts)
        self.reports.append(report)
        tell(report, self.settings.on_batch, self.name)
        self._purging.after(report)

    def _run(self, rows: DataFrame) -> tuple[Mapping[str, int], str | None]:
        """Run the services; return how many rows became what, and why some are to be given back."""
        with described(rows.sparkSession, f"doubtless {self.name}: runs the service for each row"):
            return self._counted(rows)

    def _counted(self, rows: DataFrame) -> tuple[Mapping[str, int], str | None]:
        task = _RowTask(self._shipped or b"", self.settings.shipped, self._calls_per_second)
        statuses = mapped(rows, task.run, "status string, reason string", name="doubtless_service")
        counts = counted(statuses, "status", _STATUSES, F.max("reason").alias("reason"))
        return {status: counts[status] for status in _STATUSES}, counts["reason"]


@dataclass(frozen=True, slots=True)
class _RowTask:
    """What a task needs to run a trigger."""

    shipped: bytes
    settings: BatchSettings
    calls_per_second: float | None = None

    def run(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Take the rows of one partition through the trigger's pipeline, some units at a time."""
        trigger = unpacked(self.shipped)
        with running(trigger, self.calls_per_second) as run:
            for batch in batches:
                # Beside each other, all rows of a batch: between two pieces some would wait for the slowest.
                size = CLAIM_BATCH if trigger.settings.concurrency == 1 else max(batch.num_rows, 1)
                pieces = (units_of(rows, trigger.settings) for rows in chunks_of(batch, size))
                results = [one for units in pieces for unit in run(units, self._unit) for one in unit]
                yield text_batch(
                    {"status": [status for status, _ in results], "reason": [reason for _, reason in results]}
                )

    async def _unit(self, pipeline: Pipeline, rows: Sequence[Values]) -> Sequence[Result]:
        messages: list[Message] = []
        rejected: list[Result] = []
        for row in rows:
            try:
                messages.append(self._message(row))
            except (ValidationError, NoIdentityError) as error:
                # Parked, as a provider's unreadable delivery is.
                await pipeline.park_unreadable(Unreadable(raw_of(row), str(error), None))
                rejected.append((REJECTED, None))
        return rejected + [_result_of(outcome) for outcome in await self._handle(pipeline, messages)]

    def _message(self, row: Values) -> Message:
        key = row.pop(KEY)
        row.pop(COUNT)
        uuid = key or identity_of_row(row, self.settings.columns)
        return message_of(
            row, self.settings.columns, destination=self.settings.trigger.destination, uuid=uuid
        )

    async def _handle(self, pipeline: Pipeline, messages: Sequence[Message]) -> list[Outcome]:
        """Handle messages, and again those that somebody alive is at; the rest is to be given back."""
        outcomes = list(await pipeline.handle_batch(messages))
        deadline = time.monotonic() + self.settings.patience.total_seconds()
        while waiting := [index for index, outcome in enumerate(outcomes) if _comes_again(outcome)]:
            if time.monotonic() > deadline:
                break
            pause = max(outcomes[index].recover_after for index in waiting)
            await pipeline.shell.sleep(min(pause, LONGEST_PAUSE))
            again = await pipeline.handle_batch([messages[index] for index in waiting])
            for index, outcome in zip(waiting, again, strict=True):
                outcomes[index] = outcome
        return outcomes


def _comes_again(outcome: Outcome) -> bool:
    """Whether a provider would have to deliver it again, at once or a little later."""
    return not outcome.acknowledge and not outcome.executed


def _result_of(outcome: Outcome) -> tuple[str, str | None]:
    """Return what became of a row; one whose service has failed was given up, and parked."""
    if not outcome.acknowledge:
        return UNDECIDED, outcome.reason
    if outcome.status is None:
        return (REJECTED if outcome.rejected else UNMATCHED), None
    if outcome.status is Status.NEW and outcome.error is not None:
        return REJECTED, None
    return str(outcome.status), None


def _report(
    counts: Mapping[str, int], record: BatchRecord, notes: Sequence[str], seconds: float
) -> BatchReport:
    return BatchReport(
        batch_id=record.batch,
        query=record.query,
        rows=sum(counts.values()),
        new=counts.get(Status.NEW, 0),
        duplicate=counts.get(Status.DUPLICATE, 0),
        in_doubt=counts.get(Status.IN_DOUBT, 0),
        rejected=counts.get(REJECTED, 0),
        unmatched=counts.get(UNMATCHED, 0),
        seconds=seconds,
        attempt=record.attempt,
        notes=tuple(notes),
    )


def _check(trigger: Shippable) -> None:
    settings = trigger.settings
    if settings.uuid is not None:
        raise ConfigurationError(
            f"trigger {trigger.name}",
            "uuid= would name a second identity beside the column that foreach_batch(uuid=...) names",
            "make a column of what it reads, and leave it out of the trigger",
        )
    for setting, wrong in (
        ("ordered", settings.ordered),
        ("join", len(settings.destinations) > 1),
    ):
        if wrong:
            raise ConfigurationError(
                f"trigger {trigger.name}",
                f"{setting} does not work in a micro-batch: its rows run on many executors",
                "use a plain trigger of one destination, or a consumer",
            )


def row_service(
    trigger: Shippable,
    history: object,
    *,
    columns: Columns,
    patience: timedelta,
    query: str | None,
    partitions: int | None,
    calls_per_second: float | None,
    on_batch: Callable[[BatchReport], Any] | None,
) -> RowService:
    """Return the row service of a trigger; see :meth:`~triggers.Trigger.foreach_batch`."""
    settings = BatchSettings(
        trigger=trigger.settings,
        columns=columns,
        history=cast("str", history),  # which it checks
        patience=patience,
        query=query,
        partitions=partitions,
        on_batch=on_batch,
    )
    return RowService(trigger, settings, calls_per_second=calls_per_second)
