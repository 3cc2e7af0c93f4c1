"""``sqljms``: a queue or topic of SQL-JMS as a source of a Spark stream.

In its log, read messages are pinned, and removed when they are done. A position ``3@5f1c`` is behind lot 3 of
the line of lots 5f1c, see :mod:`triggers.providers.sqljms.receiving.pinning`; ``0`` is before all. A lot is a
span, and its entries stay the same until the query is done with it. A query that begins takes over the lots
that were pinned under its name: another query with this name finds out that its line has ended.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import NoReturn, TypeVar
from uuid import uuid4

from pyspark.sql.types import StructType

from history.bridge import drive
from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, Step, open_engine
from history.support.paging import pieces_of
from history.support.references import dereferenced
from triggers.providers.provider import Arrival, Unreadable
from triggers.providers.sqljms.destinations import Destination
from triggers.providers.sqljms.link import SqlLink, providers_errors
from triggers.providers.sqljms.receiving import clients, pinning
from triggers.providers.sqljms.receiving.odd_rows import EitherRow
from triggers.providers.sqljms.receiving.pinning import Lot, Pins
from triggers.providers.sqljms.receiving.receiver import received_of
from triggers.providers.sqljms.settings import SqlJmsSettings
from triggers.spark.connections import patiently
from triggers.spark.sources.log import LogEntry, LogPosition, LogSettings, ReadOptions, Span
from triggers.spark.sources.reader import LogSource, SourceOptions

T = TypeVar("T")

#: The position before everything.
ORIGIN = LogPosition("0", 0)

#: How many messages are read in one call.
PAGE = 200

#: How the names of readers and their subscriptions begin, so that no other reader has them.
READ_BY = "spark:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlJmsLogSettings(LogSettings):
    """The settings of a query for the position it reads; see the options of ``SqlJmsSource``."""

    destination: Destination
    subscription: str


@dataclass(slots=True)
class SqlJmsLog:
    """One process's connection to a queue or a topic's subscription; connected at the first call."""

    settings: SqlJmsLogSettings
    _opened: SqlLink | None = field(default=None)
    #: The line to which this process pins.
    _line: str | None = field(default=None)
    #: The position behind which nothing is pinned. A look costs as much as is pinned.
    _last: str | None = field(default=None)

    def begin(self) -> LogPosition:
        """Make new messages wait for the query; return where a new query begins."""
        self._do("opening the source", partial(pinning.attach, pins=self._pins("")))
        return ORIGIN

    def end(self) -> LogPosition:
        """Return the server's time: messages that are due and committed until then exist now."""
        return LogPosition(str(self._see("looking at the clock", pinning.now)), -1)

    def walk(
        self, start: LogPosition, *, until: LogPosition | None, rows: int | None
    ) -> Sequence[LogPosition]:
        """Return the pinned lots after ``start``, and pin messages that are due now, or at ``until``."""
        lot, line = self._attached(start)
        positions = [] if self._last == start.offset else self._left(start, lot, line, rows)
        at = positions[-1] if positions else start
        look = partial(pinning.is_anything, pins=self._pins(line))
        if self._last != at.offset or not self._see("looking for messages", look):
            return positions
        self._do("sweeping", clients.sweep)
        now = self._see("looking at the clock", pinning.now)
        due = now if until is None else min(now, int(until.offset))
        while rows is None or at.count - start.count < rows:
            left = self.settings.rows_of_a_span if rows is None else rows - (at.count - start.count)
            lot = _parsed(at)[0] if positions else lot
            pinned = self._pin(line, lot, due, min(left, self.settings.rows_of_a_span))
            if pinned is None:
                self._lose_line()
                return self.walk(start, until=until, rows=rows)
            if not pinned.entries:
                break
            at = LogPosition(f"{pinned.number}@{line}", at.count + pinned.entries)
            positions.append(at)
            self._last = at.offset
        return positions

    def _left(self, start: LogPosition, lot: int, line: str, rows: int | None) -> list[LogPosition]:
        """Return the lots that were pinned and never planned: nobody else will read them."""
        positions, at = list[LogPosition](), start
        find = partial(pinning.lots, pins=self._pins(line), after=lot)
        for number, entries in self._see("looking for lots", find):
            if rows is not None and at.count - start.count >= rows:
                return positions
            at = LogPosition(f"{number}@{line}", at.count + entries)
            positions.append(at)
        self._last = at.offset
        return positions

    def _pin(self, line: str, lot: int, due: int, limit: int) -> Lot | None:
        tried = False

        async def pin(connection: AnyConnection) -> Lot | None:
            nonlocal tried
            again, tried = tried, True
            bounds = {"after": lot, "until": due, "limit": limit}
            return await pinning.pin(connection, self._pins(line), **bounds, again=again)

        return self._do("pinning messages", pin)

    def _attached(self, start: LogPosition) -> tuple[int, str]:
        """Return lot and line of a position, after the line became this query's."""
        lot, line = _parsed(start)
        if self._line is None and line:
            self._line = line
            self.hold(start)  # the commit that Spark had no time to report
        mine = self._line or self._take_over()
        return (lot if line == mine else 0), mine

    def _take_over(self) -> str:
        line = uuid4().hex
        self._do("taking a reader's name", partial(pinning.take_over, pins=self._pins(line)))
        self._line, self._last = line, None
        return line

    def _lose_line(self) -> None:
        self._lose(
            f"what {self._pins('').name!r} had pinned was given back, or another query has this name now"
        )
        self._take_over()

    def plan(self, start: LogPosition, end: LogPosition) -> Sequence[LogPosition]:
        """Divide a batch; see :class:`~triggers.spark.sources.log.Log`."""
        after, upto, line = _between(start, end)
        find = partial(pinning.lots, pins=self._pins(line), after=after, upto=upto)
        positions, at = list[LogPosition](), start
        for number, entries in self._see("planning a batch again", find):
            at = LogPosition(f"{number}@{line}", at.count + entries)
            positions.append(at)
        if at.count != end.count:
            missing = end.count - at.count
            self._lose(f"{missing} entries of the batch up to {end.offset} are not the query's any more")
        return [*positions[:-1], end]

    def read(self, span: Span) -> Iterator[Sequence[LogEntry]]:
        """Read a span, some messages at a time."""
        after, upto, line = _between(span.start, span.end)
        pins = self._pins(line)
        ids = self._see("reading a lot", partial(pinning.numbers, pins=pins, after=after, upto=upto))
        rows = 0
        for some in pieces_of(ids, PAGE):
            page = partial(pinning.messages, destination_kind=pins.kind, ids=some)
            entries = self._see("reading messages", page)
            rows += len(entries)
            yield [_entry(row) for row in entries]
        if rows != span.rows:
            missing = span.rows - rows
            self._lose(
                f"{missing} of {span.rows} entries up to {span.end.offset} are not the query's any more"
            )

    def hold(self, position: LogPosition) -> None:
        """Remove everything up to ``position``: it is processed."""
        lot, line = _parsed(position)
        pins = self._pins(line)
        for number, _ in self._see("looking at lots", partial(pinning.lots, pins=pins, after=0, upto=lot)):
            self._do("taking a lot out", partial(pinning.take_out, pins=pins, lot=number))

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            drive(self._opened.close())
            self._opened = None

    def _pins(self, line: str) -> Pins:
        return Pins(self.settings.destination, READ_BY + self.settings.subscription, line)

    def _do(self, doing: str, work: Step[T]) -> T:
        """Do one step in a transaction, and repeat it while the server is away: repeating is harmless."""
        return patiently(self.settings.waits, self._link.run, doing, work, atomic=True)

    def _see(self, doing: str, work: Step[T]) -> T:
        """Query, and repeat while the server is unavailable."""
        return patiently(self.settings.waits, self._link.run, doing, work)

    @property
    def _link(self) -> SqlLink:
        if self._opened is None:
            _, url = SqlJmsSettings.from_url(dereferenced(self.settings.url, "url"))
            with providers_errors():
                engine = open_engine(url, asyncio=False, options=SqlJmsSettings.names())
                self._opened = SqlLink(engine, owned=True)
        return self._opened

    def _lose(self, problem: str) -> None:
        self.settings.lose(self.settings.destination.name, problem)


def _parsed(position: LogPosition) -> tuple[int, str]:
    lot, _, line = position.offset.partition("@")
    return int(lot), line


def _between(start: LogPosition, end: LogPosition) -> tuple[int, int, str]:
    """Return the lot to start after, the last lot, and their line; lots of another line do not count."""
    (after, before), (upto, line) = _parsed(start), _parsed(end)
    return (after if before == line else 0), upto, line


def _entry(row: EitherRow) -> LogEntry:
    match received_of(row, row.msg_id):
        case Arrival(message=message):
            return LogEntry(str(row.msg_id), message)
        case Unreadable(fields=fields, problem=problem):
            return LogEntry(str(row.msg_id), None, problem, fields)


class SqlJmsSource(LogSource):
    """Consumes a queue, or a topic through its own durable subscription, in lots that stay.

    Register it once for each session (``spark.dataSource.register(SqlJmsSource)``). Options: ``url``,
    ``destination`` and ``subscription``, which are required, and the options of every log, all in
    docs/how-to/read-streams-in-spark.md. :mod:`triggers.spark.sources.message_rows` lists the columns.

    The messages of a batch are claimed under the number of a lot when the batch is planned, and stay until
    Spark reports that the batch is done: a batch that runs again has the same entries. Then they are removed.

    Guarantee: in doubt, or what the sink adds to it (fenced, atomic). By itself: each entry is delivered at
    least once; a batch that Spark runs again has the same entries, and an entry that was removed by others is
    an error.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "sqljms"

    def open_log(self, reading: ReadOptions, options: SourceOptions) -> SqlJmsLog:
        """Return a connection to the queue or topic.

        Raises:
            ConfigurationError: nothing can be kept there for a query, or it is to begin at the end.
        """
        if reading.from_the_end:
            raise ConfigurationError(
                "startingOffsets", "a queue has no latest", "leave it out: the query gets what waits"
            )
        address = options.needed("destination", "queue://orders")
        destination = Destination.parse(address)
        if destination.is_temporary or not destination.durable:
            raise ConfigurationError(
                "destination", f"{address!r} keeps nothing for a query that is stopped", "use a durable one"
            )
        settings = SqlJmsLogSettings(
            url=options.needed("url", "postgresql://user@host/database"),
            destination=destination,
            subscription=options.needed("subscription", "pipeline"),
            **asdict(reading),
        )
        return SqlJmsLog(settings)

    def reader(self, schema: StructType) -> NoReturn:  # noqa: ARG002
        """Refuse: a read would consume.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(
            self.name(), "is read by streams alone", "use spark.readStream, or doubtless sqljms show"
        )
