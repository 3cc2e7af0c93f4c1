"""Whether a stream gives the same rows, with the same identities, when a batch comes again.

An identity that ``uuid()`` or ``rand()`` makes differs each time that it is computed. When a batch comes
again, its rows would then be other messages, and all of them would run twice. Spark's plan says it: an
expression of this kind is not ``deterministic``. First Spark's optimizer drops all columns that the identity
does not need, so that ``rand()`` in another column is accepted.

Inside ``foreachBatch`` the frame has no plan, but the running query has. Spark Connect shows neither. A user
function that draws an identity, and is not marked for it, is not seen either. Both are noticed when a batch
comes again: the ledger knows how many rows an earlier run has handed over, and all of them must come again.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.types import LongType, StructField, StructType

from history.errors import ConfigurationError
from history.store import CLAIM_BATCH
from history.store.progress import HANDED_OVER, BatchRecord
from history.support.rendering import text_of
from triggers.spark.batch.claims.verdicts import KEY
from triggers.spark.batch.session import UNSEEN
from triggers.spark.batch.tally import BatchTally
from triggers.spark.connections import history_at, patiently
from triggers.spark.rows.arrow import RecordBatch, chunks_of, mapped, record_batch
from triggers.spark.rows.columns import quoted
from triggers.spark.settings import BatchSettings, Columns

_log = logging.getLogger(__name__)

#: For Spark these differ each time, but a batch that comes again has the same files and the same time.
_SAME_AT_A_REPLAY = frozenset(
    {"InputFileName", "InputFileBlockStart", "InputFileBlockLength", "CurrentBatchTimestamp"}
)

#: How many rows of a partition the history knows, and how many it does not know.
KNOWN_AND_FRESH = StructType([StructField(name, LongType(), nullable=False) for name in ("known", "fresh")])

_REMEDY = (
    "make the identity of the row's own columns, such as F.sha2(F.concat_ws(':', 'key', 'at'), 256), "
    "or draw it where the row is first stored"
)


def check_replay(settings: BatchSettings, record: BatchRecord, tally: BatchTally) -> None:
    """Notice that other rows have come again than an earlier run handed over.

    A sink that is rewritten, or knows its commits, neither loses nor doubles rows by that: it is logged.

    Raises:
        ConfigurationError: the function may already have received these rows under other identities.
    """
    seen = tally.new + tally.duplicate + tally.aside - tally.fresh
    problem = _problem(settings, record, known_rows=seen, fresh=tally.fresh)
    if problem is None:
        return
    if record.restored:
        _refuse_to_write_anew(settings, record, missing=record.counts[HANDED_OVER] - seen)
        return
    remedy = f"{_REMEDY}. on_replay='execute' hands over what has come now"
    if settings.on_replay == "execute" or settings.committed is not None:
        _log.critical("%s: %s", problem, remedy, extra={"trigger": settings.name})
        return
    raise ConfigurationError("uuid", problem, remedy)


def _refuse_to_write_anew(settings: BatchSettings, record: BatchRecord, *, missing: int) -> None:
    """Refuse to replace what an earlier batch of the same number has written, if its rows come elsewhere.

    They are duplicates in another batch, which is right for any other sink.
    """
    if settings.on_replay != "execute" or settings.committed is not None:
        return
    raise ConfigurationError(
        "checkpoint",
        f"an older state of it was restored, and batch {record.batch} has other rows now: {missing} rows "
        "that its earlier run handed over have not come again, and a sink that is written anew would lose "
        "them",
        "restore the newest state, or begin with a new checkpoint: its lineage gives its batches other names",
    )


def check_rows_again(rows: DataFrame, settings: BatchSettings, record: BatchRecord) -> None:
    """Do as :func:`check_replay` does, for rows that are claimed and processed in one go.

    It reads the keys of the rows once more, but only if an earlier run of the batch has processed rows, and
    if these must come again: not after an older state of the checkpoint was restored.

    Raises:
        ConfigurationError: as there.
    """
    if record.restored or not record.counts.get(HANDED_OVER):
        return
    look_up = _KnownRows(settings.history, settings.name, settings.patience)
    looked_up = mapped(rows.select(KEY), look_up.count, KNOWN_AND_FRESH, name="doubtless_replay")
    (sums,) = looked_up.agg(F.sum("known").alias("known"), F.sum("fresh").alias("fresh")).collect()
    problem = _problem(settings, record, known_rows=sums["known"] or 0, fresh=sums["fresh"] or 0)
    if problem is not None:
        remedy = f"{_REMEDY}. To process what has come now, give query= another name for this run"
        raise ConfigurationError("uuid", problem, remedy)


def _problem(settings: BatchSettings, record: BatchRecord, *, known_rows: int, fresh: int) -> str | None:
    """Say that fewer rows are known than an earlier run handed over, if others have come instead."""
    handed_over = record.counts.get(HANDED_OVER, 0)
    missing = handed_over - known_rows
    # Without a lineage from Spark, a batch that was completed may be another one, of another checkpoint.
    may_be_another = record.lineage == record.name and not record.unfinished
    if not fresh or missing <= 0 or may_be_another:
        return None
    return (
        f"an earlier run of batch {record.batch} handed over {handed_over} rows; {missing} or more of them "
        f"have not come again, and {fresh} others have: column {settings.columns.uuid!r} has other "
        "identities each time, or the history has forgotten the batch"
    )


@dataclass(frozen=True, slots=True)
class _KnownRows:
    """Counts the rows of a partition that the history knows, and those that it does not know."""

    history: str
    name: str
    patience: timedelta

    def count(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield both counts, once."""
        history, seen, fresh = history_at(self.history), 0, 0
        for keys in (keys for batch in batches for keys in chunks_of(batch, CLAIM_BATCH)):
            uuids = [row[KEY] for row in keys if row[KEY] is not None]
            entries = patiently(self.patience, history.lookup, self.name, uuids)
            fresh += (absent := sum(entry is None for entry in entries))
            seen += len(entries) - absent
        yield record_batch([(seen, fresh)], KNOWN_AND_FRESH)


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """Looks at the plan of a stream before it starts, and at the plan of each query once."""

    columns: Columns
    _seen: set[str] = field(default_factory=set[str])

    def stream(self, stream: DataFrame) -> None:
        """Refuse a stream with an identity or rows that differ each time that they are computed.

        Raises:
            ConfigurationError: naming the expressions and the remedy.
        """
        java = getattr(stream, "_jdf", None)  # Spark Connect has none
        if java is not None:
            _check(self.columns, java, cast("Any", stream.sparkSession))

    def batch(self, batch: DataFrame, lineage: str) -> None:
        """Do the same as :meth:`stream`, with the first batch of a query and with the query's own plan.

        Raises:
            ConfigurationError: as there.
        """
        if lineage in self._seen:
            return
        self.stream(batch)
        session = cast("Any", batch.sparkSession)
        stream = _stream_of(session, lineage)
        if stream is not None:
            _check(self.columns, stream, session)
        self._seen.add(lineage)


def _stream_of(session: Any, lineage: str) -> Any:
    """Return the stream that a query reads, as Java's frame; None if Spark does not show it."""
    try:
        java, jvm = session._jsparkSession, session._jvm  # noqa: SLF001  (PySpark offers no other way)
        # Not session.streams: the session of a batch is a copy that has no queries.
        queries = java.sharedState().activeStreamingQueries()
        query = queries.get(jvm.java.util.UUID.fromString(lineage))
        if query is None:
            return None
        sink = query.logicalPlan()
        spark = jvm.org.apache.spark.sql
        frames = spark.Dataset if java.version().startswith("3.") else spark.classic.Dataset
        return frames.ofRows(java, sink.children().apply(0))
    except UNSEEN as error:
        _log.debug("Spark does not show the plan of query %s: %s", lineage, text_of(error))
        return None


def _check(columns: Columns, stream: Any, session: Any) -> None:
    first, *more = [quoted(name) for name in (columns.uuid, columns.message_id) if name is not None]
    try:
        java, jvm = session._jsparkSession, session._jvm  # noqa: SLF001  (as above)
        named = stream.select(first, jvm.PythonUtils.toSeq(more))
        plan = java.sessionState().optimizer().execute(named.queryExecution().analyzed())
        reasons = [] if plan.deterministic() else sorted({*_drawn(plan)})
    except UNSEEN as error:
        _log.debug("Spark does not show how %s is made: %s", columns.uuid, text_of(error))
        return
    if reasons:
        raise ConfigurationError(
            "uuid",
            f"the identity in column {columns.uuid!r}, or which rows there are, depends on "
            f"{', '.join(reasons)}: a batch that comes again would have other identities, and run twice",
            _REMEDY,
        )


def _drawn(plan: Any) -> Iterator[str]:
    """Yield the expressions of a plan that differ each time that they are computed."""
    for expression in _each(plan.expressions()):
        yield from _drawn_in(expression)
    for child in _each(plan.children()):
        yield from _drawn(child)


def _drawn_in(expression: Any) -> Iterator[str]:
    if expression.deterministic():
        return
    below = [child for child in _each(expression.children()) if not child.deterministic()]
    if not below and expression.getClass().getSimpleName() not in _SAME_AT_A_REPLAY:
        yield expression.toString()
    for child in below:
        yield from _drawn_in(child)


def _each(values: Any) -> Iterator[Any]:
    iterator = values.iterator()
    while iterator.hasNext():
        yield iterator.next()
