"""What a store keeps beside its entries: keyed records and logs, which one atomic step changes.

A store implements :class:`Records`. Each kind of what is kept beside the entries is written over it once, for
all stores, in :mod:`history.beside`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from history.errors import ConfigurationError
from history.store.history import HistoryStore

#: The name under which a log is kept that belongs to no trigger.
NO_TRIGGER = ""

#: A key is shorter than this.
LONGEST_KEY = 64


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of records. ``name`` is a part of Redis's keys, or is in each row.

    Only records of a ``listed`` kind can be paged through and forgotten by their age.
    """

    name: str
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """A log of each trigger. About ``most`` lines are kept, the youngest; None for all."""

    name: str
    most: int | None = None


class Record(NamedTuple):
    """What is kept under a key, and its version, from 1."""

    key: bytes
    value: bytes
    version: int = 1


class Expects(StrEnum):
    """What a :class:`Put` expects of the record that is held. Where nothing is held, the version is 0."""

    ANY = "any"
    #: Its version is not greater than the new one.
    NOT_NEWER = "not newer"
    #: Its version is the one before the new one: with the version 1, nothing is held.
    FOLLOWS = "follows"


@dataclass(frozen=True, slots=True)
class Put:
    """Keep a record. One that is held already, with version and value, is as good as written.

    Then its time to live begins again, and never becomes shorter. A record of a ``listed`` kind may outlive
    its time to live while others of the kind are written.
    """

    kind: Kind
    record: Record
    expects: Expects = Expects.ANY
    time_to_live: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a record; of a ``listed`` kind all from ``key`` to ``last``, both included."""

    kind: Kind
    key: bytes
    last: bytes | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Add a line to a log: JSON, or text in ASCII. Its ``id`` is unique, and made of hexadecimal digits.

    ``about`` is what lines can be looked for by.
    """

    log: Log
    id: str
    line: str
    about: bytes = b""


Change = Put | Delete | Append


class LogLine(NamedTuple):
    """A line, when it was added by the store's clock, and the cursor that continues after it."""

    line: str | bytes
    at: datetime
    cursor: str


class LogPage(NamedTuple):
    """Some lines, the newest first. ``cursor`` continues with older ones and is None at the end."""

    lines: Sequence[LogLine]
    cursor: str | None


class Records(Protocol):
    """Keeps records and logs. Everything may be sent twice.

    Every method raises :class:`~history.errors.HistoryUnavailableError` when the server does not answer.
    """

    async def apply(
        self, trigger: str, changes: Sequence[Change], *, each: bool = False
    ) -> Sequence[Record | None]:
        """Make all changes in one atomic step, or none where a record is not as a :class:`Put` expects.

        With ``each``, every change stands for itself, and a store may make several steps of them. No key
        stands twice. A step that only appends waits for no replica.

        Return for each change what is held now; see :func:`is_done`. Where nothing was made, only the answer
        to a refused change says so.
        """
        ...

    async def get(self, trigger: str, kind: Kind, keys: Sequence[bytes]) -> Sequence[Record | None]:
        """Return what is held under each key; None for nothing, or when its time to live is over."""
        ...

    async def page(
        self, trigger: str, kind: Kind, *, prefix: bytes = b"", before: bytes | None = None, limit: int = 100
    ) -> Sequence[Record]:
        """Return some records of a ``listed`` kind, the greatest key first, and only of keys before one."""
        ...

    async def log(
        self,
        trigger: str,
        log: Log,
        *,
        about: bytes | None = None,
        before: datetime | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> LogPage:
        """Return some lines, the newest first; without a cursor, those that were added before an instant.

        One that was sent twice may be there twice.

        Raises:
            ConfigurationError: the cursor is none of this log.
        """
        ...

    async def forget(self, trigger: str, kind: Kind | Log, age: timedelta) -> int:
        """Delete what has not changed for longer than this, by the store's clock; return how many.

        Of a ``listed`` kind of records, a bounded number of them.
        """
        ...


def is_done(changes: Sequence[Change], answers: Sequence[Record | None]) -> bool:
    """Whether each record is now as was asked for."""
    return all(
        not isinstance(change, Put) or change.record == held
        for change, held in zip(changes, answers, strict=True)
    )


def end_of(prefix: bytes) -> bytes:
    """Return what is greater than each key that begins so."""
    return prefix + b"\xff" * LONGEST_KEY


def wrong_cursor() -> ConfigurationError:
    """Return the error of a cursor that is of no page of this log."""
    return ConfigurationError("cursor", "it is none of this log", "begin at the newest record")


@runtime_checkable
class KeepsRecords(Protocol):
    """A store that keeps records, as those of this package do; one of your own may."""

    @property
    def records(self) -> Records:
        """What is kept, in the same store."""
        ...


def records_of(store: HistoryStore) -> Records | None:
    """Return what keeps the records of a store; None where it keeps none."""
    return store.records if isinstance(store, KeepsRecords) else None
