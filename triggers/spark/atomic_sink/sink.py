"""``atomic_sink``: rows and their history entries in one SQL transaction, exactly once each.

::

    from doubtless.spark import atomic_sink, into_table

    bookings = atomic_sink(
        "orders", name="book-order", uuid="uuid", history="postgresql://shop@db/shop",
        write=into_table("bookings", columns=["uuid", "customer", "amount"]),
    )
    stream.writeStream.foreachBatch(bookings).option("checkpointLocation", path).start()

The table is in the history's own database. A task claims its rows, writes them and completes their entries
in one transaction: what is killed leaves all three behind, or none, and whoever comes next, be it another
attempt of the task, a speculative twin, the next run of the batch or another query with the same name, finds
duplicates. So there is no lease: what a task has claimed nobody else sees before it is complete.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Unpack
from urllib.parse import urlsplit

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from history.errors import ConfigurationError
from history.shell import ThreadShell
from history.store.progress import KEPT_BATCHES, BatchRecord, BatchState
from history.support.references import dereferenced
from resolvers.loading import load_resolver
from resolvers.resolution import Asked, asking
from triggers.detection.table import Status
from triggers.events import RetrievalFailureEvent, publish
from triggers.service.checking import pointing
from triggers.service.options import check_names, showing_options
from triggers.spark.atomic_sink.transactions import RESULT, SinkTask
from triggers.spark.atomic_sink.writers import RowsWriter, TableWriter, into_table
from triggers.spark.batch.claims.table import Verdict
from triggers.spark.batch.claims.verdicts import KEY, VERDICT, prepared
from triggers.spark.batch.determinism import PlanCheck, check_rows_again
from triggers.spark.batch.ledger import Ledger, identity_of, run_of
from triggers.spark.batch.purging import Purging
from triggers.spark.batch.second_look import EVENT, STATUS, judged_again
from triggers.spark.batch.session import described
from triggers.spark.connections import patiently
from triggers.spark.report import BatchReport, RowCounts, tell
from triggers.spark.rows.arrow import mapped
from triggers.spark.rows.columns import check_frame
from triggers.spark.settings import DEFAULT_ROWS_PER_TRANSACTION, SINK_DEFAULTS, BatchSettings, SinkOptions

__all__ = ["AtomicSink", "RowsWriter", "TableWriter", "atomic_sink", "into_table"]


@showing_options(SinkOptions, SINK_DEFAULTS)
@pointing()
def atomic_sink(
    destination: str, *, uuid: str, history: str, write: RowsWriter, **options: Unpack[SinkOptions]
) -> "AtomicSink":
    """Make a sink for ``writeStream.foreachBatch`` that writes each row once, always.

    Args:
        destination: where the messages come from, for events and parked rows.
        uuid: the column with the identity of the event, never of an entity (a customer, an aggregate's key):
            a second row of one entity would be a duplicate. Text, whole numbers or bytes, see
            :mod:`triggers.spark.rows.columns`; where it is null, ``message_id`` is the identity.
        history: the URL of the document history: PostgreSQL, or SQLite where driver and executors are one
            machine. The rows are written to the same database.
        write: what writes rows: :func:`into_table`, or a function of ``(connection, rows)`` of your own, with
            a ``sqlalchemy.Connection`` that it must not commit, and the rows as dictionaries.
        message_id: the column with the JMSMessageID, if there is one.
        delivery_count: the column with the JMSXDeliveryCount, if there is one; null is undefined.
        body: the column that is the body of a message that is parked or resolved; the whole row by default.
        fingerprint: "body", a column or a list of columns: a row with the uuid of another one and another
            fingerprint is rejected and parked, neither written nor taken for a duplicate. A column that
            is null compares nothing. JSON counts by what it says, as of ``@trigger``.
        name: the namespace in the history, shared by all that must not process a row twice; by default
            "module.function" of a ``write`` of your own.
        query: the name of the query in the batch ledger; by default its queryName, else its id.
        reprocess: a label, such as "2026-11 refill", when rows are wanted once more that the history knows:
            they are under "<name>/<label>" a generation of their own, each once again.
        resolver: asked about rows that a trigger of the same name started elsewhere and did not complete.
        on_fatal: when rows cannot be written, "raise" fails the query; "reject" finds out which ones, parks
            them, with an event each, and writes the others.
        on_reset: when batch ids go back, "warn" says so and goes on, "raise" fails the query.
        in_doubt: "park" keeps In Doubt rows for a decision, "execute" writes them, "acknowledge" drops them.
        max_delivery_count: rows above it are rejected.
        history_time_to_live: how long an entry is remembered.
        transient: exception classes that always fail the task, besides TransientError and UnavailableError,
            or a function of ``(error)`` that says so: Spark tries it again.
        redact: what takes values, such as card numbers, out of the texts of errors and resolvers before they
            are logged, parked or sent; as of ``@trigger``. Spark itself logs what the query fails with.
        patience: how long a task waits for a database that is away, and for rows that somebody else who is
            alive processes.
        rows_per_transaction: the most rows of one transaction, and of one call of ``write``.
        partitions: how many tasks write; one for each core by default.
        on_batch: given the :class:`~triggers.spark.report.BatchReport` of each batch that was completed, on
            the driver; a death in between leaves it untold.

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


class AtomicSink:
    """Made by :func:`atomic_sink`; give it to ``writeStream.foreachBatch``.

    ``reports`` holds a :class:`~triggers.spark.report.BatchReport` for each batch that was completed in this
    process, the last ones only; ``counts`` adds up what they say. What an attempt that was cut off has
    written counts as ``new`` in the report of the attempt that came to its end, where both had the same
    partitions.

    Guarantee: atomic: history entry and effects share one SQL transaction, exactly once, no In Doubt window.
    """

    def __init__(self, settings: BatchSettings, write: RowsWriter, resolver: Asked | None, rows: int) -> None:
        self.settings = settings
        self.reports: deque[BatchReport] = deque(maxlen=KEPT_BATCHES)
        self.counts = RowCounts()
        self._write = write
        self._resolver = resolver
        self._rows = rows
        self._purging = Purging(settings)
        self._plans = PlanCheck(settings.columns)

    def __repr__(self) -> str:
        return f"<AtomicSink {self.settings.name} on {self.settings.trigger.destination}>"

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
        """Write one micro-batch; Spark calls this.

        Raises:
            ConfigurationError: the stream's columns do not do, or a batch comes again with other identities.
            Exception: rows could not be written, or the database stayed away.
        """
        started = time.perf_counter()
        check_frame(self.settings.columns, batch)
        ledger, identity = Ledger(self.settings), identity_of(batch, self.settings.query)
        self._plans.batch(batch, identity.lineage)
        completed = ledger.was_completed(identity, batch_id)
        record, notes = ledger.begin(identity, batch_id)
        rows = prepared(batch, self.settings)
        check_rows_again(rows, self.settings, record)
        ledger.note(record, BatchState.RUNNING, dict(record.counts))
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
        self.reports.append(report)
        self.counts.add(report)
        tell(report, self.settings.on_batch, self.settings.name)
        self._purging.after(report)

    def _written(self, rows: DataFrame, record: BatchRecord) -> dict[str, int]:
        """Let the tasks write, and return their counts; publish the events of what they gave up."""
        token, _, _ = run_of(record).owner.token.rpartition("/")
        task = SinkTask(
            history=self.settings.history,
            settings=self.settings.trigger,
            columns=self.settings.columns,
            write=self._write,
            resolver=self._resolver,
            on_fatal=self.settings.on_fatal,
            rows=self._rows,
            patience=self.settings.patience,
            token=token,
        )
        results = mapped(rows, task.partition, RESULT, name="doubtless_atomic_sink").collect()
        for row in results:
            self._publish(row["events"])
        return {name: sum(row[name] for row in results) for name in RESULT.names if name != "events"}

    def _keyless(self, rows: DataFrame, record: BatchRecord) -> int:
        """Park rows without an identity, or with a delivery count that is none or too large; count them."""
        aside = rows.filter(F.col(KEY).isNull()).withColumn(VERDICT, F.lit(int(Verdict.ASIDE)).cast("byte"))
        judged = judged_again(aside, self.settings, run_of(record)).select(STATUS, EVENT).collect()
        self._publish([row[EVENT] for row in judged if row[EVENT] is not None])
        return sum(row[STATUS] != Status.DUPLICATE for row in judged)

    def _publish(self, events: Sequence[str]) -> None:
        for document in events:
            event = RetrievalFailureEvent.model_validate_json(document)
            patiently(self.settings.patience, publish, event, ThreadShell())


def _check(history: Any, write: Any, rows: Any) -> None:
    url = dereferenced(history, "history") if isinstance(history, str) else ""
    scheme = urlsplit(url).scheme.partition("+")[0]
    if scheme not in {"postgresql", "postgres", "sqlite"}:
        raise ConfigurationError(
            "history",
            f"an atomic sink needs a SQL database, and {history!r:.60} is none",
            "give postgresql://..., the database that the rows are written to; or use foreach_batch",
        )
    if not callable(write):
        raise ConfigurationError("write", f"{write!r:.60} is not callable", "give into_table(...)")
    if type(rows) is not int or rows < 1:
        raise ConfigurationError(
            "rows_per_transaction", f"must be 1 or more, not {rows!r:.60}", "leave it out"
        )
