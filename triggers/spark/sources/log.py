"""A log: entries that are only ever appended, each at an offset greater than those before it.

A Spark query needs three operations, for any storage: find how far it may read (:meth:`Log.walk`), plan a
batch again exactly as it was (:meth:`Log.plan`), and read a part of it on any machine (:meth:`Log.read`).
:mod:`triggers.spark.sources.reader` turns them into a Spark source.

A position counts the entries up to it, so a deleted entry differs from an entry that never existed: between
two positions there must be as many entries as their counts differ by. Each log has its own kind of entry:
most hold messages (:class:`LogEntry`).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, Protocol, Self, TypeVar

from history.errors import DoubtlessError
from history.message import Message

E_co = TypeVar("E_co", covariant=True)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The place of a reader: ``offset`` of the last entry read, and how many the log ever had up to it.

    A log that was not counted from its beginning counts from where the query began. The count is -1 if it is
    unknown: at the end of such a log.
    """

    offset: str
    count: int

    def to_json(self) -> dict[str, str | int]:
        """Return the form that Spark keeps in its checkpoint."""
        return {"offset": self.offset, "count": self.count}

    @classmethod
    def from_json(cls, kept: Mapping[str, str | int]) -> Self:
        """Read the result of :meth:`to_json`."""
        return cls(str(kept["offset"]), int(kept["count"]))


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the log: the entries after ``start``, up to and including ``end``."""

    start: LogPosition
    end: LogPosition

    @property
    def rows(self) -> int:
        """How many entries it had."""
        return self.end.count - self.start.count


class LogEntry(NamedTuple):
    """One entry: a message, or (``message`` None) the problem with it and its original fields."""

    offset: str
    message: Message | None
    problem: str | None = None
    fields: Mapping[bytes, bytes] = {}


class EntriesLostError(DoubtlessError):
    """Entries were deleted before they were read, or the log is not the same log as before."""

    def __init__(self, log: str, problem: str) -> None:
        super().__init__(
            f"{log}: {problem}; to go on with what is left, set the option failOnDataLoss to false"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options that every source of a log has; see docs/how-to/read-streams-in-spark.md."""

    from_the_end: bool = False
    rows_of_a_batch: int | None = None
    rows_of_a_span: int = 10_000
    fail_on_loss: bool = True
    #: In seconds.
    patience: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings(ReadOptions):
    """The settings of a query for any log it reads."""

    url: str

    @property
    def waits(self) -> timedelta:
        """How long to wait for an unavailable server."""
        return timedelta(seconds=self.patience)

    def lose(self, log: str, problem: str) -> None:
        """Report that entries of a log are lost.

        Raises:
            EntriesLostError: the query must fail then.
        """
        lost = EntriesLostError(log, problem)
        if self.fail_on_loss:
            raise lost
        _log.error("%s", lost)


class Log(Protocol[E_co]):
    """A log as one process sees it. Every method waits for an unavailable server, up to its patience.

    Every method raises :class:`~history.errors.UnavailableError` if the server stays unavailable, and
    ConfigurationError if it can never answer.
    """

    def begin(self) -> LogPosition:
        """Return where a new query begins."""
        ...

    def end(self) -> LogPosition:
        """Return the position of the last entry."""
        ...

    def walk(
        self, start: LogPosition, *, until: LogPosition | None, rows: int | None
    ) -> Sequence[LogPosition]:
        """Return the positions that divide the entries after ``start`` into spans; the last ends the batch.

        At most ``rows`` entries (more if the log keeps a larger group together), and none after ``until``;
        nothing without entries.

        Raises:
            EntriesLostError: an entry between ``start`` and the last position is known to be lost.
        """
        ...

    def plan(self, start: LogPosition, end: LogPosition) -> Sequence[LogPosition]:
        """Return the positions that divide a batch; the last is ``end``.

        Raises:
            EntriesLostError: some of its entries were deleted.
        """
        ...

    def read(self, span: Span) -> Iterator[Sequence[E_co]]:
        """Return the entries of a span in order, some at a time.

        Raises:
            EntriesLostError: some of them were deleted.
        """
        ...

    def hold(self, position: LogPosition) -> None:
        """Report that everything up to ``position`` is processed and may be trimmed."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
