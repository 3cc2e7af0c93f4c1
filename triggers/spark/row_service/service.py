"""A trigger service that runs row by row on the executors: ``trigger.foreach_batch(...)``.

Each task takes its rows through the trigger's own pipeline, a unit at a time: one claim, the services in
order, one completion. So a row has all guarantees of ``@trigger`` that a message has. With ``concurrency``
several units of a task run concurrently, see :mod:`triggers.spark.row_service.running`. A row that must be
recovered makes the batch fail at its end: when Spark tries the batch again, processed rows are duplicates.

An executor that dies leaves its present units STARTED, and Spark's next attempt finds these rows In Doubt. So
does a speculative twin, unless the trigger has a lease: then it waits. Retrieval failure events are published
on the executors, to the handlers of the modules that are loaded there.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from pydantic import ValidationError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history.errors import ConfigurationError
from history.message import Message
from history.store import CLAIM_BATCH
from history.store.progress import HANDED_OVER, BatchRecord, BatchState
from triggers.detection.table import Status
from triggers.pipeline.protocol import Pipeline
from triggers.providers.provider import Unreadable
from triggers.service.failures import TransientError
from triggers.service.outcome import Outcome
from triggers.spark.batch.claims.verdicts import COUNT, KEY
from triggers.spark.batch.ledger import Ledger
from triggers.spark.batch.session import described
from triggers.spark.batch.tally import counted
from triggers.spark.batch_info import BatchReport
from triggers.spark.connections import LONGEST_PAUSE
from triggers.spark.handler import BatchHandler
from triggers.spark.row_service.running import Result, Values, check_pace, running, units_of
from triggers.spark.row_service.shipping import Shippable, packed, unpacked
from triggers.spark.rows.arrow import RecordBatch, chunks_of, mapped, text_batch
from triggers.spark.rows.messages import NoIdentityError, identity_of_row, message_of, raw_of
from triggers.spark.settings import BatchSettings, Columns, check_url

#: The results of a row in addition to the three verdicts.
REJECTED, UNMATCHED, UNDECIDED = "REJECTED", "UNMATCHED", "UNDECIDED"
_STATUSES = (*Status, REJECTED, UNMATCHED, UNDECIDED)


class RowService(BatchHandler):
    """Made by ``trigger.foreach_batch``; give it to ``writeStream.foreachBatch``.

    ``reports`` and :meth:`write_stream` are as in :class:`~triggers.spark.ForeachBatch`.
    ``counts`` is the sum of results, including those of batches that must come again.

    Guarantee: that of the trigger, for each row.
    """

    def __init__(
        self, trigger: Shippable, settings: BatchSettings, *, calls_per_second: float | None = None
    ) -> None:
        _check(trigger)
        if calls_per_second is not None:
            check_pace("calls_per_second", calls_per_second)
        super().__init__(settings)
        self.trigger = trigger
        self._calls_per_second = calls_per_second
        self._shipped: bytes | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Run the service for each NEW row of one micro-batch; Spark calls this.

        Raises:
            ConfigurationError: the stream's columns do not fit, the trigger cannot travel, or a batch comes
                again with other identities.
            TransientError: rows must be recovered, so the batch must come again.
        """
        started = time.perf_counter()
        ledger, identity = Ledger(self.settings), self._checked(batch)
        if self._shipped is None:
            self._shipped = packed(self.trigger, self.settings.history)
        record, notes, rows = self._begun(ledger, identity, batch, batch_id)
        earlier = dict(record.counts)
        counts, reason = self._run(rows)
        report = _report(counts, record, notes, time.perf_counter() - started)
        # Even if the batch must come again: its processed rows are duplicates then.
        self._count(report, recovered=counts.get(UNDECIDED, 0))
        if undecided := counts.get(UNDECIDED, 0):
            ran = {HANDED_OVER: earlier.get(HANDED_OVER, 0) + report.new}
            ledger.note(record, BatchState.RELEASED, ran)
            raise TransientError(
                f"{undecided} rows of batch {batch_id} are undecided, so the batch must come again: {reason}"
            )
        ledger.note(record, BatchState.COMPLETED, report.counts)
        self._end(report)

    def _run(self, rows: DataFrame) -> tuple[Mapping[str, int], str | None]:
        """Run the services; return the counts of results, and why some rows must be recovered."""
        task = _RowTask(self._shipped or b"", self.settings.shipped, self._calls_per_second)
        statuses = mapped(rows, task.run, "status string, reason string", name="doubtless_service")
        with described(rows.sparkSession, f"doubtless {self.name}: runs the service for each row"):
            counts = counted(statuses, "status", _STATUSES, F.max("reason").alias("reason"))
        return {status: counts[status] for status in _STATUSES}, counts["reason"]


@dataclass(frozen=True, slots=True)
class _RowTask:
    """The values that a task needs to run a trigger."""

    shipped: bytes
    settings: BatchSettings
    calls_per_second: float | None = None

    def run(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Take the rows of one partition through the trigger's pipeline, some units at a time."""
        trigger = unpacked(self.shipped)
        with running(trigger, self.calls_per_second) as run:
            for batch in batches:
                # Concurrently, all rows of a batch: between two pieces some workers would wait for the
                # slowest.
                size = CLAIM_BATCH if trigger.settings.concurrency == 1 else max(batch.num_rows, 1)
                pieces = (units_of(rows, trigger.settings) for rows in chunks_of(batch, size))
                results = [result for units in pieces for unit in run(units, self._unit) for result in unit]
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
                # Parked, like a provider's unreadable delivery.
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
        """Handle messages, and again the ones that run elsewhere; the rest must be recovered."""
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
    """Whether a provider would deliver it again, immediately or a little later."""
    return not outcome.acknowledge and not outcome.executed


def _result_of(outcome: Outcome) -> tuple[str, str | None]:
    """Return the result of a row; after a failed service, it was given up and parked."""
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
    if isinstance(settings.parking, str):
        check_url("parking", settings.parking)
    if settings.uuid is not None:
        raise ConfigurationError(
            f"trigger {trigger.name}",
            "uuid= would name a second identity beside the column that foreach_batch(uuid=...) names",
            "make a column of what it reads, and leave it out of the trigger",
        )
    for setting, wrong in (("ordered", settings.ordered), ("join", len(settings.destinations) > 1)):
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
        history=cast("str", history),  # which is checked there
        patience=patience,
        query=query,
        partitions=partitions,
        on_batch=on_batch,
    )
    return RowService(trigger, settings, calls_per_second=calls_per_second)
