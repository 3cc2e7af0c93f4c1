"""The log of a publication as a log: offsets are those of the commits, and rows are operations.

A place ``20/3`` stands in transaction 20, before the operation of position 3 and behind those before it: so
``20/0`` is before all of the transaction. Counts begin with the query.

A transaction takes the next offset and keeps all others from it until it ends, see
:mod:`triggers.providers.sqlremote.publication.publication`: whoever sees an offset sees everything up to it,
and nothing comes in between later. The log is deleted from its beginning, so that a transaction that is still
there says that nothing after it is gone; where the one read last is gone too, ``deleted_to`` tells. That is
one number for all publications of a database: it may accuse, of a place that another publication's log was
deleted past, and never absolves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from history.bridge import drive
from history.sql.database.engine import AnyRow, fetch
from history.sql.links.history import LinkHistory
from history.sql.statements.dialects import Statement, statement
from history.store import instant
from triggers.providers.sqlremote.publication.log import FEWEST, MOST, PAGE_BYTES
from triggers.spark.connections import patiently
from triggers.spark.sources.log import LogSettings, Place, Span

# The last offset given out and the first that the publication has; none is between them that is not there.
ENDS = statement(
    """SELECT e.last_offset, (SELECT MIN(l.commit_offset) FROM doubtless_link_log AS l
        WHERE l.publication = :publication) AS first_offset
    FROM doubtless_link_end AS e WHERE e.id = 1"""
)

# Whether a transaction of the publication is there, and what is deleted.
LOOK = statement(
    """SELECT e.last_offset, e.deleted_to, CASE WHEN EXISTS (
        SELECT 1 FROM doubtless_link_log AS l
        WHERE l.commit_offset = :place AND l.publication = :publication) THEN 1 ELSE 0 END AS there
    FROM doubtless_link_end AS e WHERE e.id = 1"""
)

#: What stands after a place, up to a transaction and with it.
_AFTER = """publication = :publication AND commit_offset >= :offset AND commit_offset <= :upto
        AND (commit_offset > :offset OR position >= :position)"""

# Where the first operation is, and where the one is that so many are before.
NTH = statement(
    f"""SELECT commit_offset FROM doubtless_link_log
    WHERE {_AFTER} ORDER BY commit_offset, position LIMIT 1 OFFSET :skipped"""  # noqa: S608  (ours)
)

# The last of so many operations, and how many there are.
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


class _Stand(NamedTuple):
    """A place, read."""

    offset: int
    position: int

    @classmethod
    def of(cls, place: Place) -> "_Stand":
        offset, _, position = place.offset.partition("/")
        return cls(int(offset), int(position))

    def at(self, count: int) -> Place:
        return Place(f"{self.offset}/{self.position}", count)

    @property
    def needed(self) -> int:
        """The first transaction that is not read."""
        return self.offset + (self.position > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationLogSettings(LogSettings):
    """What a query is told of the publication it reads; see the options of ``PublicationSource``."""

    publication: str
    from_the_end: bool = False


@dataclass(slots=True)
class PublicationLog:
    """One process's link to a publication's log; connected at the first call."""

    settings: PublicationLogSettings
    _opened: LinkHistory | None = field(default=None)
    #: A place, and up to which transaction there was nothing after it.
    _nothing: tuple[str, int] = ("", 0)

    def begin(self) -> Place:
        """Return where a new query begins: before what is there, or behind it."""
        ends = self._one("looking for the log's ends", ENDS)
        if self.settings.from_the_end or ends.first_offset is None:
            return _Stand(ends.last_offset + 1, 0).at(0)
        return _Stand(ends.first_offset, 0).at(0)

    def end(self) -> Place:
        """Return the place behind the last transaction of the whole database."""
        ends = self._one("looking for the log's ends", ENDS)
        return _Stand(ends.last_offset + 1, 0).at(-1)

    def walk(self, start: Place, *, until: Place | None, rows: int | None) -> Sequence[Place]:
        """Step through what stands after ``start``, by whole transactions; at least one, however long."""
        last = (self.end() if until is None else until).offset
        upto = _Stand.of(Place(last, -1)).offset - 1
        places = self._walk(start, self._whole(start, upto, rows))
        # Looked at afterwards: what was deleted while the log was walked is seen, too.
        self._look(start, upto, empty=not places)
        return places

    def _whole(self, start: Place, upto: int, rows: int | None) -> int:
        """Return the last transaction of a batch of at most so many rows; the first, if it has more."""
        if rows is None:
            return upto
        beyond = self._nth(start, upto, rows)
        if beyond is None:
            return upto
        first = self._nth(start, upto, 0)
        return beyond - 1 if first is None else max(first, beyond - 1)

    def _nth(self, start: Place, upto: int, skipped: int) -> int | None:
        found = self._rows("looking ahead", NTH, **_after(start, upto), skipped=skipped)
        return int(found[0].commit_offset) if found else None

    def _walk(self, start: Place, upto: int) -> list[Place]:
        places, at = list[Place](), start
        while found := self._rows(
            "stepping through the log", STEP, **_after(at, upto), rows=self.settings.rows_of_a_span
        ):
            ((offset, position, number),) = found
            at = _Stand(offset, position + 1).at(at.count + number)
            places.append(at)
            if number < self.settings.rows_of_a_span:
                break
        return places

    def _look(self, start: Place, upto: int, *, empty: bool) -> None:
        """Notice what was deleted after ``start`` and before it was read."""
        stand = _Stand.of(start)
        look = self._one("looking for what is deleted", LOOK, place=stand.offset)
        known = max(stand.needed - 1, self._nothing[1] if self._nothing[0] == start.offset else 0)
        if look.last_offset < stand.needed - 1:
            self._lose(
                f"it ends at {look.last_offset}: this is another log than the one that was read before"
            )
        elif not look.there and look.deleted_to > known:
            self._lose(f"it was deleted up to {look.deleted_to}, and what was read ends before {known + 1}")
        if empty:
            self._nothing = (start.offset, max(upto, known))

    def plan(self, start: Place, end: Place) -> Sequence[Place]:
        """Part a batch; see :class:`~triggers.spark.sources.log.Log`."""
        places = self._walk(start, _Stand.of(end).offset)
        found = places[-1] if places else start
        if found != end:
            missing = end.count - found.count
            self._lose(f"{missing} operations of the batch up to {end.offset} are not there any more")
        return [*places[:-1], end]

    def read(self, span: Span) -> Iterator[Sequence[Operation]]:
        """Read a span, about two megabytes at a time."""
        at, last, read, rows = span.start, _Stand.of(span.end), 0, FEWEST
        while read < span.rows:
            limit = min(rows, span.rows - read)
            found = self._rows("reading the log", READ, **_after(at, last.offset), rows=limit)
            page = [
                Operation(
                    row.commit_offset, row.position, row.origin, instant(row.committed_at), row.operation
                )
                for row in found
                if (row.commit_offset, row.position) < last
            ]
            if not page:
                break
            yield page
            read, at = read + len(page), _Stand(page[-1].offset, page[-1].position + 1).at(-1)
            size = sum(len(one.operation) for one in page) // len(page) + 1
            rows = min(max(PAGE_BYTES // size, FEWEST), MOST)
        if read != span.rows:
            missing = span.rows - read
            self._lose(f"{missing} of {span.rows} operations up to {span.end.offset} are not there any more")

    def hold(self, place: Place) -> None:
        """Do nothing: nobody waits for the query."""

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            drive(self._opened.close())
            self._opened = None

    def _one(self, doing: str, text: Statement, **values: object) -> AnyRow:
        (row,) = self._rows(doing, text, **values)
        return row

    def _rows(self, doing: str, text: Statement, **values: object) -> Sequence[AnyRow]:
        """Ask, and again while the server is away: nothing that is asked changes anything."""
        told: dict[str, Any] = {"publication": self.settings.publication, **values}
        work = partial(fetch, statement=text, **told)
        return patiently(self.settings.waits, self._history.watermarks.run, doing, work)

    @property
    def _history(self) -> LinkHistory:
        if self._opened is None:
            self._opened = LinkHistory.from_url(self.settings.url)
        return self._opened

    def _lose(self, problem: str) -> None:
        self.settings.lose(f"publication {self.settings.publication}", problem)


def _after(start: Place, upto: int) -> dict[str, Any]:
    stand = _Stand.of(start)
    return {"offset": stand.offset, "position": stand.position, "upto": upto}
