"""``publication``: the log of a SQL Remote publication as a source of a Spark stream.

================  =======================================================================================
``uuid``          ``publication:NAME:OFFSET:POSITION``: the identity of the operation
``offset``        bigint, of the transaction's COMMIT: grows in the order of the commits
``position``      int, within the transaction: grows, and may leave some out
``origin``        the link that brought the applied transaction; null for the application's own
``committed_at``  timestamp of the append
``operation``     the operation, as JSON
================  =======================================================================================

Offsets of the log are those of the commits, and rows are operations. The position ``20/3`` is in transaction
20, right before its operation 3: so ``20/0`` is before the whole transaction. Counts begin with the query.

A transaction takes the next offset and keeps all others from it until it ends, see
:mod:`triggers.providers.sqlremote.publication.publication`. So a reader that sees an offset sees everything
up to it, and nothing is inserted in between later. The log is deleted from its beginning, so an existing
transaction proves that nothing after it was deleted. If the transaction read last is also deleted,
``deleted_to`` decides. That is one number for all publications of a database. So it may report a loss if only
another publication's log was deleted past the position, but it never misses a loss.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from history.bridge import drive
from history.sql.database.engine import AnyRow, fetch
from history.sql.links.history import LinkHistory
from history.sql.statements.dialects import Statement, statement
from history.store import instant
from history.support.references import dereferenced
from triggers.providers.sqlremote.publication.log import FEWEST, MOST, PAGE_BYTES
from triggers.spark.connections import patiently
from triggers.spark.rows.arrow import RecordBatch, record_batch
from triggers.spark.sources.log import LogPosition, LogSettings, ReadOptions, Span
from triggers.spark.sources.reader import LogSource, SourceOptions

# The last offset given out, and the publication's first one; no entry can appear later between them.
ENDS = statement(
    """SELECT e.last_offset, (SELECT MIN(l.commit_offset) FROM doubtless_link_log AS l
        WHERE l.publication = :publication) AS first_offset
    FROM doubtless_link_end AS e WHERE e.id = 1"""
)

# Whether a transaction of the publication exists, and how much is deleted.
LOOK = statement(
    """SELECT e.last_offset, e.deleted_to, CASE WHEN EXISTS (
        SELECT 1 FROM doubtless_link_log AS l
        WHERE l.commit_offset = :offset AND l.publication = :publication) THEN 1 ELSE 0 END AS there
    FROM doubtless_link_end AS e WHERE e.id = 1"""
)

#: The operations after a position, up to and including a transaction.
_AFTER = """publication = :publication AND commit_offset >= :offset AND commit_offset <= :upto
        AND (commit_offset > :offset OR position >= :position)"""

# The places of the first operation and of the nth operation.
NTH = statement(
    f"""SELECT commit_offset FROM doubtless_link_log
    WHERE {_AFTER} ORDER BY commit_offset, position LIMIT 1 OFFSET :skipped"""  # noqa: S608  (ours)
)

# The last of this many operations, and how many there are.
STEP = statement(
    f"""SELECT commit_offset, position, number FROM (
        SELECT commit_offset, position, ROW_NUMBER() OVER (ORDER BY commit_offset, position) AS number
        FROM doubtless_link_log WHERE {_AFTER} ORDER BY commit_offset, position LIMIT :rows
    ) AS stepped ORDER BY number DESC LIMIT 1"""  # noqa: S608  (ours)
)

# The operations themselves.
READ = statement(
    f"""SELECT commit_offset, position, origin, committed_at, operation FROM doubtless_link_log
    WHERE {_AFTER} ORDER BY commit_offset, position LIMIT :rows"""  # noqa: S608  (ours)
)


class Operation(NamedTuple):
    """One operation, as it was appended: a JSON text."""

    offset: int
    position: int
    origin: str | None
    committed_at: datetime
    operation: str


class _Parsed(NamedTuple):
    """A parsed position."""

    offset: int
    position: int

    @classmethod
    def of(cls, whole: LogPosition) -> "_Parsed":
        offset, _, position = whole.offset.partition("/")
        return cls(int(offset), int(position))

    def at(self, count: int) -> LogPosition:
        return LogPosition(f"{self.offset}/{self.position}", count)

    @property
    def needed(self) -> int:
        """The first transaction that is not read."""
        return self.offset + (self.position > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationLogSettings(LogSettings):
    """The settings of a query for the publication it reads; see the options of ``PublicationSource``."""

    publication: str


@dataclass(slots=True)
class PublicationLog:
    """One process's connection to a publication's log; connected at the first call."""

    settings: PublicationLogSettings
    _opened: LinkHistory | None = field(default=None)
    #: A position, and up to which transaction nothing follows it.
    _nothing: tuple[str, int] = ("", 0)

    def begin(self) -> LogPosition:
        """Return where a new query begins: before or after the existing entries."""
        ends = self._row("looking for the log's ends", ENDS)
        if self.settings.from_the_end or ends.first_offset is None:
            return _Parsed(ends.last_offset + 1, 0).at(0)
        return _Parsed(ends.first_offset, 0).at(0)

    def end(self) -> LogPosition:
        """Return the position behind the last transaction of the whole database."""
        ends = self._row("looking for the log's ends", ENDS)
        return _Parsed(ends.last_offset + 1, 0).at(-1)

    def walk(
        self, start: LogPosition, *, until: LogPosition | None, rows: int | None
    ) -> Sequence[LogPosition]:
        """Step through the transactions after ``start``, whole ones only; at least one, however long."""
        last = (self.end() if until is None else until).offset
        upto = _Parsed.of(LogPosition(last, -1)).offset - 1
        positions = self._walk(start, self._whole(start, upto, rows))
        # Checked afterwards, to see transactions that were deleted during the walk.
        self._look(start, upto, empty=not positions)
        return positions

    def _whole(self, start: LogPosition, upto: int, rows: int | None) -> int:
        """Return the last transaction of a batch of at most ``rows`` rows; the first, if it has more."""
        if rows is None:
            return upto
        beyond = self._nth(start, upto, rows)
        if beyond is None:
            return upto
        first = self._nth(start, upto, 0)
        return beyond - 1 if first is None else max(first, beyond - 1)

    def _nth(self, start: LogPosition, upto: int, skipped: int) -> int | None:
        rows = self._rows("looking ahead", NTH, **_after(start, upto), skipped=skipped)
        return int(rows[0].commit_offset) if rows else None

    def _walk(self, start: LogPosition, upto: int) -> list[LogPosition]:
        positions, at = list[LogPosition](), start
        while rows := self._rows(
            "stepping through the log", STEP, **_after(at, upto), rows=self.settings.rows_of_a_span
        ):
            ((offset, position, number),) = rows
            at = _Parsed(offset, position + 1).at(at.count + number)
            positions.append(at)
            if number < self.settings.rows_of_a_span:
                break
        return positions

    def _look(self, start: LogPosition, upto: int, *, empty: bool) -> None:
        """Notice transactions after ``start`` that were deleted before they were read."""
        parsed = _Parsed.of(start)
        look = self._row("looking for what is deleted", LOOK, offset=parsed.offset)
        skipped = max(parsed.needed - 1, self._nothing[1] if self._nothing[0] == start.offset else 0)
        if look.last_offset < parsed.needed - 1:
            self._lose(f"it ends at {look.last_offset}: this is another log, not the log read before")
        elif not look.there and look.deleted_to > skipped:
            self._lose(f"it was deleted up to {look.deleted_to}, and what was read ends before {skipped + 1}")
        if empty:
            self._nothing = (start.offset, max(upto, skipped))

    def plan(self, start: LogPosition, end: LogPosition) -> Sequence[LogPosition]:
        """Divide a batch; see :class:`~triggers.spark.sources.log.Log`."""
        positions = self._walk(start, _Parsed.of(end).offset)
        last = positions[-1] if positions else start
        if last != end:
            missing = end.count - last.count
            self._lose(f"{missing} operations of the batch up to {end.offset} are not there any more")
        return [*positions[:-1], end]

    def read(self, span: Span) -> Iterator[Sequence[Operation]]:
        """Read a span, about two megabytes at a time."""
        at, last, read, rows = span.start, _Parsed.of(span.end), 0, FEWEST
        while read < span.rows:
            limit = min(rows, span.rows - read)
            operations = self._rows("reading the log", READ, **_after(at, last.offset), rows=limit)
            page = [
                Operation(
                    row.commit_offset, row.position, row.origin, instant(row.committed_at), row.operation
                )
                for row in operations
                if (row.commit_offset, row.position) < last
            ]
            if not page:
                break
            yield page
            read, at = read + len(page), _Parsed(page[-1].offset, page[-1].position + 1).at(-1)
            size = sum(len(operation.operation) for operation in page) // len(page) + 1
            rows = min(max(PAGE_BYTES // size, FEWEST), MOST)
        if read != span.rows:
            missing = span.rows - read
            self._lose(f"{missing} of {span.rows} operations up to {span.end.offset} are not there any more")

    def hold(self, position: LogPosition) -> None:
        """Do nothing: nobody waits for the query."""

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            drive(self._opened.close())
            self._opened = None

    def _row(self, doing: str, text: Statement, **values: object) -> AnyRow:
        (row,) = self._rows(doing, text, **values)
        return row

    def _rows(self, doing: str, text: Statement, **values: object) -> Sequence[AnyRow]:
        """Query, and repeat while the server is unavailable: no query changes anything."""
        parameters: dict[str, Any] = {"publication": self.settings.publication, **values}
        work = partial(fetch, statement=text, **parameters)
        return patiently(self.settings.waits, self._history.watermarks.run, doing, work)

    @property
    def _history(self) -> LinkHistory:
        if self._opened is None:
            self._opened = LinkHistory.from_url(dereferenced(self.settings.url, "url"))
        return self._opened

    def _lose(self, problem: str) -> None:
        self.settings.lose(f"publication {self.settings.publication}", problem)


def _after(start: LogPosition, upto: int) -> dict[str, Any]:
    parsed = _Parsed.of(start)
    return {"offset": parsed.offset, "position": parsed.position, "upto": upto}


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
        """Return the name for ``format``."""
        return "publication"

    def open_rows(self, options: SourceOptions) -> OperationRows:
        """Return the object that makes rows of operations."""
        return OperationRows(options.needed("publication", "orders"))

    def open_log(self, reading: ReadOptions, options: SourceOptions) -> PublicationLog:
        """Return a connection to the log."""
        settings = PublicationLogSettings(
            url=options.needed("url", "postgresql://user@host/database"),
            publication=options.needed("publication", "orders"),
            **asdict(reading),
        )
        return PublicationLog(settings)
