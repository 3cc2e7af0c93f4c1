"""A log as a Spark source, in the Python Data Source API: the part that is the same for every log.

A variant is a subclass of :class:`LogSource` with a name, its options and a :class:`~.log.Log`. Its
:class:`Rows` make rows of its entries; by default, rows of messages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self, cast

from pyspark.sql.types import StructType

from history.entry import LONGEST
from history.errors import ConfigurationError
from history.support.urls import is_number_in
from triggers.service.checking import MOST
from triggers.spark.rows.arrow import RecordBatch
from triggers.spark.rows.older_spark import too_old
from triggers.spark.sources.log import Log, LogPosition, ReadOptions, Span
from triggers.spark.sources.message_rows import BodyType, MessageRows

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as error:
    raise too_old("a streaming source", "4.2") from error

#: A position, as Spark keeps it: JSON.
PositionJson = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one source; names compare without case, as Spark's do."""

    source: str
    given: Mapping[str, str]
    _asked: dict[str, str] = field(default_factory=dict[str, str])

    def needed(self, name: str, example: str) -> str:
        """Return an option that must be present.

        Raises:
            ConfigurationError: it is missing.
        """
        value = self.text(name)
        if not value:
            raise ConfigurationError(
                self.source, f"has no {name}", f"add .option({name!r}, {example!r}) before .load()"
            )
        return value

    def text(self, name: str) -> str | None:
        """Return an option as it is; None if it is left out."""
        self._asked[name.lower()] = name
        return {key.lower(): value for key, value in self.given.items()}.get(name.lower())

    def choice(self, name: str, *choices: str) -> str:
        """Return one of several words; the first is the default."""
        value = self.text(name)
        if value is None:
            return choices[0]
        if value.lower() not in choices:
            raise self._wrong(name, value, f"give {' or '.join(choices)}")
        return value.lower()

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        choices = ("true", "false") if default else ("false", "true")
        return self.choice(name, *choices) == "true"

    def count(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number of 1 or more."""
        value = self.text(name)
        if value is None:
            return default
        if not is_number_in(value, range(1, MOST + 1)):
            raise self._wrong(name, value, f"give a whole number of 1 or more, at most {MOST}")
        return int(value)

    def seconds(self, name: str, default: float) -> float:
        """Return a duration in seconds."""
        value = self.text(name)
        try:
            seconds = default if value is None else float(value)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= LONGEST.total_seconds():
            raise self._wrong(name, str(value), f"give seconds, such as 60, at most {LONGEST.days} days")
        return seconds

    def reading(self) -> ReadOptions:
        """Return the options that every source of a log has.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        return ReadOptions(
            from_the_end=self.choice("startingOffsets", "earliest", "latest") == "latest",
            rows_of_a_batch=self.count("maxRowsPerBatch"),
            rows_of_a_span=self.count("maxRowsPerPartition") or 10_000,
            fail_on_loss=self.flag("failOnDataLoss", default=True),
            patience=self.seconds("patience", 60.0),
        )

    def all_known(self) -> Self:
        """Return these options after each known option was read.

        Raises:
            ConfigurationError: an option is unknown.
        """
        unknown = sorted(name for name in self.given if name.lower() not in self._asked)
        if unknown:
            raise ConfigurationError(
                self.source,
                f"has no option {unknown[0]}",
                f"its options are {', '.join(sorted(self._asked.values()))}",
            )
        return self

    def _wrong(self, name: str, value: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(name, f"{value!r:.60} cannot be used", remedy)


class Rows(Protocol):
    """Makes rows of the entries."""

    @property
    def schema(self) -> StructType:
        """Return the columns."""
        ...

    def batches(self, pages: Iterable[Sequence[Any]]) -> Iterator[RecordBatch]:
        """Return one Arrow batch for each page of entries."""
        ...


class LogSource(DataSource):
    """A Spark source that reads one log; with ``spark.read``, the entries that exist at that moment.

    Raises:
        ConfigurationError: an option is missing, unknown or cannot be used.
    """

    def open_log(self, reading: ReadOptions, options: SourceOptions) -> Log[Any]:
        """Return a connection to the log; it connects at its first call."""
        raise NotImplementedError

    def open_rows(self, options: SourceOptions) -> Rows:
        """Return the object that makes rows of entries; see :mod:`triggers.spark.sources.message_rows`."""
        return MessageRows(cast("BodyType", options.choice("body", "binary", "string")))

    def log(self) -> Log[Any]:
        """Return a connection to the log, after all options are checked."""
        options = self._options
        log = self.open_log(options.reading(), options)
        self.open_rows(options)
        options.all_known()
        return log

    @property
    def _options(self) -> SourceOptions:
        return SourceOptions(self.name(), cast("Mapping[str, str]", self.options))

    @property
    def reading(self) -> ReadOptions:
        """The options that every source has."""
        return self._options.reading()

    @property
    def rows(self) -> Rows:
        """Makes rows of entries."""
        return self.open_rows(self._options)

    def schema(self) -> StructType:
        """Return the columns."""
        self.log()
        return self.rows.schema

    def streamReader(self, schema: StructType) -> "LogStreamReader":  # noqa: ARG002, N802  (Spark's name)
        """Return the object with which Spark plans and reads batches."""
        return LogStreamReader(self)

    def reader(self, schema: StructType) -> "LogTableReader":  # noqa: ARG002
        """Return the object with which Spark reads the whole log."""
        return LogTableReader(self)


class SpanPartition(InputPartition):
    """The part of one task."""

    def __init__(self, span: Span) -> None:
        super().__init__(span)
        self.span = span


def _read(source: LogSource, partition: InputPartition) -> Iterator[RecordBatch]:
    log = source.log()
    try:
        yield from source.rows.batches(log.read(cast("SpanPartition", partition).span))
    finally:
        log.close()


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of a query on the driver, and reads them on the executors."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._target: LogPosition | None = None
        #: How the next batch was walked, so that it is not walked twice.
        self._walked: tuple[LogPosition, Sequence[LogPosition]] | None = None

    @cached_property
    def _log(self) -> Log[Any]:
        return self._source.log()

    def initialOffset(self) -> PositionJson:  # noqa: N802  (Spark's name, as those below)
        """Return where a new query begins."""
        return self._log.begin().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much of the log one batch may have."""
        rows = self._source.reading.rows_of_a_batch
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note where the log ends: a query with ``availableNow`` reads that far and stops."""
        self._target = self._log.end()

    def latestOffset(self, start: PositionJson, limit: ReadLimit) -> PositionJson:  # noqa: N802
        """Return how far the next batch goes."""
        begin = LogPosition.from_json(start)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        positions = self._log.walk(begin, until=self._target, rows=rows)
        self._walked = (begin, positions)
        return positions[-1].to_json() if positions else start

    def reportLatestOffset(self) -> PositionJson:  # noqa: N802
        """Return the end of the log, for the query's progress."""
        return self._log.end().to_json()

    def partitions(self, start: PositionJson, end: PositionJson) -> Sequence[InputPartition]:
        """Divide a batch; a batch that is planned again has the same rows."""
        begin, last = LogPosition.from_json(start), LogPosition.from_json(end)
        if begin == last:
            return []
        positions: Sequence[LogPosition] = []
        if self._walked is not None and self._walked[0] == begin:
            positions = self._walked[1]
        if not positions or positions[-1] != last:
            positions = self._log.plan(begin, last)
        return _parted(begin, positions)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read one part of a batch, on an executor."""
        return _read(self._source, partition)

    def commit(self, end: PositionJson) -> None:
        """Note that a batch is done. Spark reports this late, and not for every batch."""
        self._log.hold(LogPosition.from_json(end))

    def stop(self) -> None:
        """Close the driver's connection."""
        self._log.close()


class LogTableReader(DataSourceReader):
    """Reads a log as a table."""

    def __init__(self, source: LogSource) -> None:
        self._source = source

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the existing entries."""
        log = self._source.log()
        try:
            begin = log.begin()
            return _parted(begin, log.walk(begin, until=None, rows=None))
        finally:
            log.close()

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read one part, on an executor."""
        return _read(self._source, partition)


def _parted(begin: LogPosition, positions: Sequence[LogPosition]) -> Sequence[InputPartition]:
    starts = [begin, *positions]
    return [SpanPartition(Span(start, end)) for start, end in zip(starts, positions, strict=False)]
