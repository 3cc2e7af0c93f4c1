"""``publication``: the log of a SQL Remote publication as a source of a Spark stream.

================  =======================================================================================
``uuid``          ``publication:NAME:OFFSET:POSITION``: the identity of the operation
``offset``        bigint, of the transaction's COMMIT: grows in the order of the commits
``position``      int, within the transaction: grows, and may leave some out
``origin``        the link that brought the applied transaction; null for the application's own
``committed_at``  timestamp of the append
``operation``     the operation, as JSON
================  =======================================================================================
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from triggers.spark.rows.arrow import RecordBatch, record_batch
from triggers.spark.sources.options import Options
from triggers.spark.sources.publication_log import Operation, PublicationLog, PublicationLogSettings
from triggers.spark.sources.reader import LogSource, ReadOptions


@dataclass(frozen=True, slots=True)
class OperationRows:
    """Makes Arrow batches of operations."""

    publication: str

    @property
    def schema(self) -> StructType:
        """The columns."""
        return StructType(
            [
                StructField("uuid", StringType()),
                StructField("offset", LongType()),
                StructField("position", IntegerType()),
                StructField("origin", StringType()),
                StructField("committed_at", TimestampType()),
                StructField("operation", StringType()),
            ]
        )

    def batches(self, pages: Iterable[Sequence[Operation]]) -> Iterator[RecordBatch]:
        """Return one batch for each page of operations."""
        schema, name = self.schema, self.publication
        for page in pages:
            rows = [
                (f"publication:{name}:{operation.offset}:{operation.position}", *operation)
                for operation in page
            ]
            yield record_batch(rows, schema)


class PublicationSource(LogSource):
    """Reads the operations that the transactions of a publication appended, in the order of their commits.

    Register it once for each session (``spark.dataSource.register(PublicationSource)``). Options: ``url`` and
    ``publication``, which are required, and the options of every log, all in
    docs/how-to/read-streams-in-spark.md.

    A transaction is never divided between batches. The source is not a peer of the publication: no link
    notices it, and the deletion of transactions that all peers have confirmed does not wait for it.

    Guarantee: in doubt, or what the sink adds to it (fenced, atomic). By itself: each operation is in one
    batch, and a batch that Spark runs again has the same operations; a part that was deleted unread is an
    error.
    """

    @classmethod
    def name(cls) -> str:
        """Return the object that makes rows of operations."""
        return "publication"

    def open_rows(self, options: Options) -> OperationRows:
        """Return a connection to the log."""
        return OperationRows(options.needed("publication", "orders"))

    def open_log(self, reading: ReadOptions, options: Options) -> PublicationLog:
        """Return a link to the log."""
        settings = PublicationLogSettings(
            url=options.needed("url", "postgresql://user@host/database"),
            publication=options.needed("publication", "orders"),
            from_the_end=reading.from_the_end,
            rows_of_a_span=reading.rows_of_a_span,
            fail_on_loss=reading.fail_on_loss,
            patience=reading.patience,
        )
        return PublicationLog(settings)
