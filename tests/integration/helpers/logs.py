"""Reading a log as a query of Spark does, span by span."""

from collections.abc import Sequence
from typing import TypeVar

from triggers.spark.sources.log import Log, LogEntry, LogPosition, Span

E = TypeVar("E")


def read_all(log: Log[E], begin: LogPosition, positions: Sequence[LogPosition]) -> list[E]:
    """Return the records after ``begin``, up to the last of ``positions`` in their order."""
    spans = [Span(start, end) for start, end in zip([begin, *positions], positions, strict=False)]
    return [entry for span in spans for page in log.read(span) for entry in page]


def read_uuids(log: Log[LogEntry], begin: LogPosition, positions: Sequence[LogPosition]) -> list[str | None]:
    """Return the uuids of the records; None for a record that is not a message."""
    return [
        None if entry.message is None else entry.message.uuid for entry in read_all(log, begin, positions)
    ]
