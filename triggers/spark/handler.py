"""What every handler of micro-batches does, and what the driver does after each batch."""

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from history.beside.kept import KeepsBeside
from history.beside.parking import Parking
from history.bridge import drive
from history.store.progress import KEPT_BATCHES, RECORDS_KEPT_FOR, BatchRecord, BatchState
from triggers.metrics.reporting import reports_to
from triggers.pipeline.parking.sweep import LOOKED_AT, SWEEP_INTERVAL, close_settled
from triggers.spark.batch.claims.verdicts import prepared
from triggers.spark.batch.determinism import PlanCheck, check_rows_again
from triggers.spark.batch.ledger import Ledger, QueryIdentity, identity_of
from triggers.spark.batch_info import BatchReport, RowCounts, tell
from triggers.spark.connections import history_at
from triggers.spark.rows.columns import check_frame
from triggers.spark.settings import BatchSettings

_log = logging.getLogger(__name__)

#: How long a purge goes on without finding anything to delete, in seconds.
LOOKING = 0.005

#: A batch deletes at most this many times its own number of rows: any backlog shrinks, without a long pause.
ARREARS = 2


class BatchHandler:
    """The base of handlers: checks of the columns, the begin of a batch in the ledger, and its report."""

    def __init__(self, settings: BatchSettings) -> None:
        self.settings = settings
        self.reports: deque[BatchReport] = deque(maxlen=KEPT_BATCHES)
        self.counts = RowCounts()
        self._reported = reports_to(settings.history)
        self._purging = Purging(settings)
        self._plans = PlanCheck(settings.columns)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} on {self.settings.trigger.destination}>"

    @property
    def name(self) -> str:
        """The namespace in the history."""
        return self.settings.name

    def write_stream(self, stream: DataFrame) -> DataStreamWriter:
        """Return ``stream.writeStream.foreachBatch(self)``, after a check of the stream's columns.

        Raises:
            ConfigurationError: naming a column that is missing, that has a type without an identity, or that
                differs each time that it is computed, such as a column by ``uuid()``.
        """
        check_frame(self.settings.columns, stream)
        self._plans.stream(stream)
        return stream.writeStream.foreachBatch(self)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Process one micro-batch; Spark calls this."""
        raise NotImplementedError

    def _checked(self, batch: DataFrame) -> QueryIdentity:
        """Check the columns and the plan of a batch; return the identity of its query."""
        check_frame(self.settings.columns, batch)
        identity = identity_of(batch, self.settings.query)
        self._plans.batch(batch, identity.lineage)
        return identity

    def _begun(
        self, ledger: Ledger, identity: QueryIdentity, batch: DataFrame, batch_id: int
    ) -> tuple[BatchRecord, Sequence[str], DataFrame]:
        """Begin a batch in the ledger; return its record, notes for the report, and its rows with keys."""
        record, notes = ledger.begin(identity, batch_id)
        rows = prepared(batch, self.settings)
        check_rows_again(rows, self.settings, record)
        ledger.note(record, BatchState.RUNNING, dict(record.counts))
        return record, notes, rows

    def _count(self, report: BatchReport, *, recovered: int = 0) -> None:
        """Count the rows of a batch, for metrics and for the charts of the dashboard."""
        self.counts.add(report)
        self._reported.add(self.name, report.charted | {"recovered": recovered})

    def _end(self, report: BatchReport) -> None:
        """Keep and hand over the report of a completed batch, and delete expired entries."""
        self.reports.append(report)
        tell(report, self.settings.on_batch, self.name)
        self._purging.after(report)


@dataclass(slots=True)
class Purging:
    """Deletes the expired entries of one trigger, some after each batch. ``cursor`` is the next place.

    It also closes parked copies that are settled. If no service shares the history, nobody else does it.

    A failure is logged, and the next batch tries again: no batch fails because of it.
    """

    settings: BatchSettings
    cursor: str | None = None
    _sweep_due: float = field(default=float("-inf"))
    _parked_cursor: str | None = field(default=None)

    def after(self, report: BatchReport) -> None:
        """Do the work that is due after a batch."""
        name = self.settings.name
        try:
            store = history_at(self.settings.history)
            self._purge(store, ARREARS * report.rows)
            if time.monotonic() >= self._sweep_due:
                self._sweep_due = time.monotonic() + SWEEP_INTERVAL.total_seconds()
                self._sweep(store)
        except Exception as error:  # noqa: BLE001  (any error of a store: the batch is completed)
            self.cursor = self._parked_cursor = None
            _log.warning(
                "expired entries could not be deleted, the next batch tries again: %s",
                error,
                extra={"trigger": name},
            )

    def _purge(self, store: KeepsBeside, most: int) -> None:
        """Delete some expired entries; each piece takes the server a few milliseconds."""
        enough, deleted = time.monotonic() + LOOKING, 0
        while True:
            some, self.cursor = drive(store.purge_some(self.settings.name, self.cursor))
            deleted += some
            if self.cursor is None or (time.monotonic() > enough and (not some or deleted >= most)):
                return

    def _sweep(self, store: KeepsBeside) -> None:
        drive(store.progress.purge_records(self.settings.name, datetime.now(UTC) - RECORDS_KEPT_FOR))
        name, parking, cursor = self.settings.name, self._parking(store), self._parked_cursor
        closed = drive(close_settled(name, store, parking, cursor=cursor, limit=LOOKED_AT))
        self._parked_cursor = closed.cursor

    def _parking(self, store: KeepsBeside) -> Parking:
        """Return where this trigger's rows are parked, by ``foreach_batch`` or by the trigger itself."""
        lot = self.settings.parking or self.settings.trigger.parking
        if lot is None:
            return store.parking
        return history_at(lot).parking if isinstance(lot, str) else lot
