"""A log: entries that are only ever appended, each at an offset greater than those before it.

What a Spark query needs of one, whatever it is kept in: to find how far it may read (:meth:`Log.walk`), to
plan a batch again exactly as it was (:meth:`Log.plan`), and to read a part of it on any machine
(:meth:`Log.read`). :mod:`triggers.spark.sources.reader` turns that into a Spark source.

A position counts the entries up to it, so that an entry that is gone differs from one that never was: between
two positions there must be as many entries as their counts differ by. The kind of entry is the log's own:
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
class Position:
    """How far a reader got: ``offset`` of the last entry read, and how many the log ever had up to it.

    A log that was not counted from its beginning counts from where the query began. The count is -1 where
    nobody knows it: at the end of such a log.
    """

    offset: str
    count: int

    def to_json(self) -> dict[str, str | int]:
        """Return what Spark keeps in its checkpoint."""
        return {"offset": self.offset, "count": self.count}

    @classmethod
    def from_json(cls, kept: Mapping[str, str | int]) -> Self:
        """Read what :meth:`to_json` wrote."""
        return cls(str(kept["offset"]), int(kept["count"]))


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the log: what stands after ``start``, up to ``end`` and with it."""

    start: Position
    end: Position

    @property
    def rows(self) -> int:
        """How many entries that were."""
        return self.end.count - self.start.count


class LogEntry(NamedTuple):
    """One entry: a message, or (``message`` None) what is wrong with it and its fields as they came."""

    offset: str
    message: Message | None
    problem: str | None = None
    fields: Mapping[bytes, bytes] = {}


class EntriesLostError(DoubtlessError):
    """Entries were deleted before they were read, or the log is not the one that was read before."""

    def __init__(self, log: str, problem: str) -> None:
        super().__init__(
            f"{log}: {problem}; to go on with what is left, set the option failOnDataLoss to false"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The settings of a query for any log it reads; ``patience`` is in seconds."""

    url: str
    rows_of_a_span: int = 10_000
    fail_on_loss: bool = True
    patience: float = 60.0

    @property
    def waits(self) -> timedelta:
        """How long a server that is away is waited for."""
        return timedelta(seconds=self.patience)

    def lose(self, log: str, problem: str) -> None:
        """Say that entries of a log are lost.

        Raises:
            EntriesLostError: the query is to fail then.
        """
        lost = EntriesLostError(log, problem)
        if self.fail_on_loss:
            raise lost
        _log.error("%s", lost)


class Log(Protocol[E_co]):
    """A log as one process sees it. Every method waits for a server that is away, up to its patience.

    Every method raises :class:`~history.errors.UnavailableError` when the server stays away, and
    ConfigurationError when it can never answer.
    """

    def begin(self) -> Position:
        """Return where a new query begins."""
        ...

    def end(self) -> Position:
        """Return the position of the last entry."""
        ...

    def walk(self, start: Position, *, until: Position | None, rows: int | None) -> Sequence[Position]:
        """Return the positions that part what stands after ``start`` into spans; the last is how far to read.

        At most ``rows`` entries (more where the log keeps some together that are more), and none after
        ``until``; nothing when there is no entry.

        Raises:
            EntriesLostError: between ``start`` and the last position an entry is known to be gone.
        """
        ...

    def plan(self, start: Position, end: Position) -> Sequence[Position]:
        """Return the positions that part a batch, the last of which is ``end``.

        Raises:
            EntriesLostError: not all of its entries are there any more.
        """
        ...

    def read(self, span: Span) -> Iterator[Sequence[E_co]]:
        """Return the entries of a span in order, some at a time.

        Raises:
            EntriesLostError: not all of them are there any more.
        """
        ...

    def hold(self, position: Position) -> None:
        """Let the log know that everything up to ``position`` is processed and may be trimmed."""
        ...

    def close(self) -> None:
        """Give the connections back."""
        ...
