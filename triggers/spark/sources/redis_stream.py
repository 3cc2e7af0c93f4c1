"""``redis_streams``: a Redis stream, as its provider writes it, as a source of a Spark stream.

Offsets of its log are entry ids, and counts are Redis's own ``entries-added`` (Redis 7.0).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from history.bridge import drive
from history.errors import ConfigurationError
from history.support.references import dereferenced
from triggers.providers.brokers.delivery import problem_of
from triggers.providers.redis_streams.codec import decode
from triggers.providers.redis_streams.link import PATIENCE, RedisLink
from triggers.providers.redis_streams.settings import StreamKeys, StreamSettings
from triggers.spark.connections import patiently
from triggers.spark.sources.log import LogEntry, LogPosition, LogSettings, ReadOptions, Span
from triggers.spark.sources.reader import LogSource, SourceOptions

#: How many entries Redis steps over, or sends, in one call: a millisecond or two of its time.
PAGE = 1000

#: The position before every entry of a stream that never had an entry.
ORIGIN = LogPosition("0-0", 0)

#: Without a subscription nobody counts deliveries: JMSXDeliveryCount is undefined.
UNCOUNTED = -1

#: How the name of a query's subscription begins, so that no other subscription has it.
HELD_BY = "spark:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisLogSettings(LogSettings):
    """The settings of a query for the stream it reads; see the options of ``RedisStreamSource``."""

    stream: str
    subscription: str | None = None


class _Step(NamedTuple):
    """The answer of ``steps.lua``."""

    length: int
    added: int
    last_id: bytes
    first_id: bytes
    stepped: int
    reached: bytes


@dataclass(slots=True)
class RedisLog:
    """One process's connection to a stream; connected at the first call."""

    settings: RedisLogSettings
    _opened: RedisLink | None = field(default=None)
    _subscribed: bool = field(default=False)

    def begin(self) -> LogPosition:
        """Return where a new query begins: before or after the existing entries."""
        step = self._step("0-0", "+", 1)
        if step is None:
            return ORIGIN
        if self.settings.from_the_end:
            return LogPosition(step.last_id.decode(), step.added)
        return LogPosition("0-0", step.added - step.length)

    def end(self) -> LogPosition:
        """Return the position of the entry that was added last."""
        step = self._step("0-0", "+", 1)
        return ORIGIN if step is None else LogPosition(step.last_id.decode(), step.added)

    def walk(
        self, start: LogPosition, *, until: LogPosition | None, rows: int | None
    ) -> Sequence[LogPosition]:
        """Step through the entries after ``start``; see :class:`~triggers.spark.sources.log.Log`."""
        if not self._subscribed:
            self.hold(start)
        bound = "+" if until is None else until.offset
        if until is not None and not _is_after(until.offset, start.offset):
            return []
        return self._walk(start, bound, rows)

    def _walk(self, start: LogPosition, bound: str, rows: int | None) -> Sequence[LogPosition]:
        step = self._step(start.offset, bound, self._page(rows, 0))
        if step is None:
            if start != ORIGIN:
                self._lose("the stream is gone, and with it what was not read yet")
            return []
        at = LogPosition(start.offset, start.count + self._gap(start, step))
        before, positions = at.count, list[LogPosition]()
        while step is not None and step.stepped:
            at = LogPosition(step.reached.decode(), at.count + step.stepped)
            self._part(positions, at, start)
            done = at.count - before
            if rows is not None and done >= rows:
                return positions
            step = self._step(at.offset, bound, self._page(rows, done))
        if bound == "+" and step is not None and positions and step.added > at.count:
            # The walk reached the end, and met fewer entries than were added: some were deleted one by one.
            self._lose(f"{step.added - at.count} entries were deleted before they were read")
            positions[-1] = LogPosition(positions[-1].offset, step.added)
        return positions

    def _part(self, positions: list[LogPosition], at: LogPosition, start: LogPosition) -> None:
        """Extend the last span to ``at``, or begin another if it would grow too long."""
        before = positions[-2] if len(positions) > 1 else start
        if positions and at.count - before.count <= self.settings.rows_of_a_span:
            positions[-1] = at
        else:
            positions.append(at)

    def _page(self, rows: int | None, done: int) -> int:
        page = min(PAGE, self.settings.rows_of_a_span)
        return page if rows is None else min(page, rows - done)

    def _gap(self, start: LogPosition, step: _Step) -> int:
        """Count the deleted entries between ``start`` and the first existing entry."""
        if _is_after(start.offset, step.last_id.decode()) or step.added < start.count:
            self._lose("this is another stream, not the stream read before")
            return 0
        if step.first_id and not _is_after(step.first_id.decode(), start.offset):
            return 0  # the last read entry, or an older one, still exists: no later one was trimmed
        gone = step.added - start.count - step.length
        if gone < 0:
            self._lose("this is another stream, not the stream read before")
        elif gone > 0:
            self._lose(f"{gone} entries after {start.offset} were deleted before they were read")
        return max(0, gone)

    def plan(self, start: LogPosition, end: LogPosition) -> Sequence[LogPosition]:
        """Divide a batch; see :class:`~triggers.spark.sources.log.Log`."""
        positions = list(self._walk(start, end.offset, None))
        last = positions[-1] if positions else start
        if last.count != end.count:
            missing = end.count - last.count
            self._lose(f"{missing} entries of the batch up to {end.offset} are not there any more")
        return [*positions[:-1], end]

    def read(self, span: Span) -> Iterator[Sequence[LogEntry]]:
        """Read a span, a page at a time."""
        after, last, rows = span.start.offset, span.end.offset, 0
        while True:
            page = self._page_after(after, last)
            if page:
                yield [self._entry(entry_id, fields) for entry_id, fields in page]
                rows, after = rows + len(page), page[-1][0].decode()
            if len(page) < PAGE:
                break
        if rows != span.rows:
            self._lose(f"{span.rows - rows} of {span.rows} entries up to {last} are not there any more")

    def _entry(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> LogEntry:
        try:
            message = decode(self.settings.stream, entry_id, fields, UNCOUNTED)
        except Exception as error:  # noqa: BLE001  (any error of a decoder of foreign bytes)
            return LogEntry(entry_id.decode(), None, problem_of(error), fields)
        return LogEntry(entry_id.decode(), message, None, fields)

    def hold(self, position: LogPosition) -> None:
        """Advance the subscription, if there is one: ``trim=acknowledged`` keeps the entries after it."""
        if self.settings.subscription is not None:
            self._run("hold", HELD_BY + self.settings.subscription, "", "", 0, position.offset)
            self._subscribed = True

    def close(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            drive(self._opened.close())
            self._opened = None

    def _step(self, after: str, bound: str, count: int) -> _Step | None:
        reply = self._run("steps", "", "", "", 0, after, bound, count)
        if reply is None:
            return None
        step = _Step(*reply)
        if step.added < 0:
            raise ConfigurationError(
                "url", "this Redis is older than 7.0 and does not say what was trimmed", "use 7.0 or newer"
            )
        return step

    def _run(self, script: str, *arguments: str | int) -> Any:
        keys = StreamKeys(self.settings.stream, "", "").scripted
        return patiently(self.settings.waits, self._link.run, script, keys, arguments)

    def _page_after(self, after: str, last: str) -> Sequence[tuple[bytes, Mapping[bytes, bytes]]]:
        command = ("XRANGE", self.settings.stream, f"({after}", last, "COUNT", PAGE)
        page: Sequence[tuple[bytes, Mapping[bytes, bytes]]] = patiently(
            self.settings.waits, self._link.call, "reading", *command
        )
        return page

    @property
    def _link(self) -> RedisLink:
        if self._opened is None:
            # The same URL as a consumer's: its settings are not the driver's.
            _, url = StreamSettings.from_url(dereferenced(self.settings.url, "url"))
            self._opened = RedisLink(RedisLink.client_for(url, asyncio=False, patience=PATIENCE))
        return self._opened

    def _lose(self, problem: str) -> None:
        self.settings.lose(f"stream {self.settings.stream}", problem)


def _is_after(offset: str, other: str) -> bool:
    return _halves(offset) > _halves(other)


def _halves(offset: str) -> tuple[int, int]:
    time, _, number = offset.partition("-")
    return int(time), int(number)


class RedisStreamSource(LogSource):
    """Reads a stream by offset: the same offsets give the same rows, for every reader, every time.

    Register it once for each session (``spark.dataSource.register(RedisStreamSource)``). Options: ``url`` and
    ``destination``, which are required; ``subscription``; and the options of every log, all in
    docs/how-to/read-streams-in-spark.md. :mod:`triggers.spark.sources.message_rows` lists the columns. Needs
    Redis 7.0 or newer, and Spark 4.2.

    It is not a consumer of the stream: nothing is acknowledged, no other subscription notices it, and a trim
    does not wait for it, unless ``subscription`` gives it a place that trims respect.

    Guarantee: in doubt, or what the sink adds to it (fenced, atomic). By itself: each entry is in one batch,
    and a batch that Spark runs again has the same entries; an entry that was deleted unread is an error.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "redis_streams"

    def open_log(self, reading: ReadOptions, options: SourceOptions) -> RedisLog:
        """Return a connection to the stream."""
        settings = RedisLogSettings(
            url=options.needed("url", "redis://127.0.0.1:6379/0"),
            stream=options.needed("destination", "orders"),
            subscription=options.text("subscription"),
            **asdict(reading),
        )
        return RedisLog(settings)
