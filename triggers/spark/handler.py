"""What every handler of micro-batches does that is given to ``writeStream.foreachBatch``."""

from collections import deque
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from history.store.progress import KEPT_BATCHES, BatchRecord, BatchState
from triggers.spark.batch.claims.verdicts import prepared
from triggers.spark.batch.determinism import PlanCheck, check_rows_again
from triggers.spark.batch.ledger import Ledger, QueryIdentity, identity_of
from triggers.spark.batch.purging import Purging
from triggers.spark.report import BatchReport, RowCounts, tell
from triggers.spark.rows.columns import check_frame
from triggers.spark.settings import BatchSettings


class BatchHandler:
    """The base of handlers: checks of the columns, the begin of a batch in the ledger, and its report."""

    def __init__(self, settings: BatchSettings) -> None:
        self.settings = settings
        self.reports: deque[BatchReport] = deque(maxlen=KEPT_BATCHES)
        self.counts = RowCounts()
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

    def _tell(self, report: BatchReport) -> None:
        """Hand over the report of a completed batch, and delete expired entries."""
        tell(report, self.settings.on_batch, self.name)
        self._purging.after(report)
