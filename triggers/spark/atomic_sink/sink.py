"""``atomic_sink``: rows and their history entries in one SQL transaction, exactly once each.

::

    from doubtless.spark import atomic_sink, into_table

    bookings = atomic_sink(
        "orders", name="book-order", uuid="uuid", history="postgresql://shop@db/shop",
        write=into_table("bookings", columns=["uuid", "customer", "amount"]),
    )
    stream.writeStream.foreachBatch(bookings).option("checkpointLocation", path).start()

The table is in the history's own database. A task claims its rows, writes them and completes their entries in
one transaction. A killed task leaves all of this behind, or nothing. The next run finds duplicates, whether
it is another attempt of the task, a speculative twin, the next run of the batch or another query with the
same name. No lease is needed: nobody else sees the claims of a task before they are complete.
"""

import time
from collections.abc import Sequence
from typing import Any, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from history.errors import ConfigurationError
from history.shell import ThreadShell
from history.store.progress import BatchRecord, BatchState
from history.support.references import dereferenced
from history.support.rendering import shown
from history.support.urls import origin, split_url
from resolvers.loading import load_resolver
from resolvers.resolution import Asked, asking
from triggers.detection.table import Status
from triggers.events import RetrievalFailureEvent, publish
from triggers.service.checking import check_plain, check_whole, pointing
from triggers.service.options import check_names, showing_options
from triggers.spark.atomic_sink.transactions import RESULT, SinkTask
from triggers.spark.atomic_sink.writers import RowsWriter, TableWriter, into_table
from triggers.spark.batch.claims.findings import RowVerdict
from triggers.spark.batch.claims.verdicts import KEY, VERDICT
from triggers.spark.batch.ledger import Ledger, QueryIdentity, run_of
from triggers.spark.batch.second_look import EVENT, STATUS, judged_again
from triggers.spark.batch.session import described
from triggers.spark.batch_info import BatchReport
from triggers.spark.connections import patiently
from triggers.spark.handler import BatchHandler
from triggers.spark.rows.arrow import mapped
from triggers.spark.settings import DEFAULT_ROWS_PER_TRANSACTION, SINK_DEFAULTS, BatchSettings, SinkOptions

__all__ = ["AtomicSink", "RowsWriter", "TableWriter", "atomic_sink", "into_table"]


@showing_options(SinkOptions, SINK_DEFAULTS)
@pointing()
def atomic_sink(
    destination: str, *, uuid: str, history: str, write: RowsWriter, **options: Unpack[SinkOptions]
) -> "AtomicSink":
    """Make a sink for ``writeStream.foreachBatch`` that always writes each row once.

    Args:
        destination: where the messages come from, for events and parked rows.
        uuid: the column with the identity of the event, never of an entity (a customer, an aggregate's key):
            a second row of one entity would be a duplicate. Text, whole numbers or bytes, see
            :mod:`triggers.spark.rows.columns`; if it is null, ``message_id`` is the identity.
        history: the URL of the document history: PostgreSQL, or SQLite if driver and executors are one
            machine. The rows are written to the same database.
        write: writes the rows: :func:`into_table`, or your own function of ``(connection, rows)``. It gets a
            ``sqlalchemy.Connection`` that it must not commit, and the rows as dictionaries.
        message_id: the column with the JMSMessageID, if there is one.
        delivery_count: the column with the JMSXDeliveryCount, if there is one; null is undefined.
        body: the column that is the body of a message that is parked or resolved; the whole row by default.
        fingerprint: "body", a column or a list of columns: a row that has the uuid of another row and another
            fingerprint is rejected and parked. It is not written, and does not count as a duplicate. A column
            that is null compares nothing. JSON is compared by its meaning, as with ``@trigger``.
        name: the namespace in the history, shared by all that must not process a row twice; by default
            "module.function" of your own ``write``.
        query: the name of the query in the batch ledger; by default its queryName, else its id.
        reprocess: a label, such as "2026-11 refill", to process rows again that the history knows. They form
            a separate generation under "<name>/<label>", each row once again.
        resolver: asked about rows that a trigger of the same name started elsewhere and did not complete.
        on_fatal: when rows cannot be written, "raise" fails the query; "reject" finds these rows, parks them,
            with an event each, and writes the others.
        on_reset: when batch ids go back, "warn" logs this and goes on, "raise" fails the query.
        in_doubt: "park" keeps In Doubt rows for a decision, "execute" writes them, "acknowledge" drops them.
        max_delivery_count: rows above it are rejected.
        history_time_to_live: how long an entry is remembered.
        transient: exception classes that always fail the task, in addition to TransientError and
            UnavailableError, or a function of ``(error)`` that returns True for them: Spark tries the task
            again.
        redact: removes values, such as card numbers, from the texts of errors and resolvers before they are
            logged, parked or sent, as with ``@trigger``. Spark itself logs the error with which the query
            fails.
        patience: how long a task waits for an unavailable database, and for rows that another running process
            has claimed.
        rows_per_transaction: the most rows of one transaction, and of one call of ``write``.
        partitions: how many tasks write; one for each core by default.
        on_batch: receives the :class:`~triggers.spark.batch_info.BatchReport` of each completed batch, on
            the driver; after a crash in between, it is not called for this batch.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    check_names("atomic_sink", options, SinkOptions.__annotations__)
    rows = options.get("rows_per_transaction", DEFAULT_ROWS_PER_TRANSACTION)
    _check(history, write, rows)
    if options.get("name") is None and not hasattr(write, "__qualname__"):
        raise ConfigurationError("name", "its writer has none that could be taken", "say name='book-order'")
    settings = BatchSettings.of(destination, options, write, uuid=uuid, history=history)
    loaded = load_resolver(options.get("resolver"))
    return AtomicSink(settings, write, None if loaded is None else asking(loaded), rows)


class AtomicSink(BatchHandler):
    """Made by :func:`atomic_sink`; give it to ``writeStream.foreachBatch``.

    ``reports`` holds a :class:`~triggers.spark.batch_info.BatchReport` for each batch that was completed in
    this process, only the last ones; ``counts`` is their sum. If an attempt was cut off, its written rows
    count as ``new`` in the report of the attempt that ended, provided that both had the same partitions.

    Guarantee: atomic: history entry and effects share one SQL transaction, exactly once, no In Doubt window.
    """

    def __init__(self, settings: BatchSettings, write: RowsWriter, resolver: Asked | None, rows: int) -> None:
        super().__init__(settings)
        self._write = write
        self._resolver = resolver
        self._rows = rows

    def write_stream(self, stream: DataFrame) -> DataStreamWriter:
        """Do as :meth:`BatchHandler.write_stream` does, after a check of the columns that are written.

        Raises:
            ConfigurationError: as there, or the stream lacks a column of :func:`into_table`.
        """
        self._check_written(stream)
        return super().write_stream(stream)

    def _checked(self, batch: DataFrame) -> QueryIdentity:
        self._check_written(batch)
        return super()._checked(batch)

    def _check_written(self, frame: DataFrame) -> None:
        if isinstance(self._write, TableWriter):
            self._write.check(frame.columns)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one micro-batch; Spark calls this.

        Raises:
            ConfigurationError: the stream's columns do not fit, or a batch comes again with other identities.
            Exception: rows could not be written, or the database stayed unavailable.
        """
        started = time.perf_counter()
        ledger, identity = Ledger(self.settings), self._checked(batch)
        completed = ledger.was_completed(identity, batch_id)
        record, notes, rows = self._begun(ledger, identity, batch, batch_id)
        with described(batch.sparkSession, f"doubtless {self.settings.name}: writes rows with their entries"):
            counts = self._written(rows, record)
            if counts.pop("keyless"):
                counts["rejected"] += self._keyless(rows, record)
        report = BatchReport(
            batch_id=batch_id,
            query=record.query,
            rows=sum(counts.values()),
            again=counts["new"] if completed else 0,
            seconds=time.perf_counter() - started,
            attempt=record.attempt,
            notes=tuple(notes),
            **counts,
        )
        ledger.note(record, BatchState.COMPLETED, report.counts)
        self._count(report)
        self._end(report)

    def _written(self, rows: DataFrame, record: BatchRecord) -> dict[str, int]:
        """Let the tasks write, and return their counts; publish the events of rows that they gave up."""
        token, _, _ = run_of(record).owner.token.rpartition("/")
        task = SinkTask(
            batch=self.settings.shipped,
            write=self._write,
            resolver=self._resolver,
            rows=self._rows,
            token=token,
        )
        results = mapped(rows, task.partition, RESULT, name="doubtless_atomic_sink").collect()
        for row in results:
            self._publish(row["events"])
        return {name: sum(row[name] for row in results) for name in RESULT.names if name != "events"}

    def _keyless(self, rows: DataFrame, record: BatchRecord) -> int:
        """Park rows without an identity, or with an invalid or too large delivery count; count them."""
        aside = rows.filter(F.col(KEY).isNull()).withColumn(
            VERDICT, F.lit(int(RowVerdict.ASIDE)).cast("byte")
        )
        judged = judged_again(aside, self.settings, run_of(record)).select(STATUS, EVENT).collect()
        self._publish([row[EVENT] for row in judged if row[EVENT] is not None])
        return sum(row[STATUS] != Status.DUPLICATE for row in judged)

    def _publish(self, events: Sequence[str]) -> None:
        for document in events:
            event = RetrievalFailureEvent.model_validate_json(document)
            patiently(self.settings.patience, publish, event, ThreadShell())


def _check(history: Any, write: Any, rows: Any) -> None:
    url = dereferenced(history, "history") if isinstance(history, str) else ""
    scheme = split_url(url).scheme.partition("+")[0]
    if scheme not in {"postgresql", "postgres", "sqlite"}:
        what = origin(url) if url else shown(history)
        raise ConfigurationError(
            "history",
            f"an atomic sink needs a SQL database, and {what} is none",
            "give postgresql://..., the database that the rows are written to; or use foreach_batch",
        )
    remedy = "give into_table(...), or a function of (connection, rows)"
    check_plain("write", write, "a connection", "rows", remedy=remedy)
    check_whole("rows_per_transaction", rows, 1)
