"""Keyed records and logs that a store keeps beside its entries, and changes in one atomic step.

A store implements :class:`Records`. :mod:`history.beside` has one implementation of each kind over it, for
all stores.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from history.entry import Fence, Settlement
from history.errors import ConfigurationError
from history.store.times import EPOCH

#: The trigger name of records and logs that do not belong to a trigger.
NO_TRIGGER = ""

#: Every key is shorter than this.
LONGEST_KEY = 64


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of records. ``name`` is a part of Redis's keys, or is in each row.

    Only records of a ``listed`` kind can be read in pages, counted, and forgotten by their age. If they are
    ``lasting``, they cannot be forgotten, and the store's ``triggers`` names their triggers.
    """

    name: str
    listed: bool = False
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """A log of each trigger. About ``most`` lines are kept, the latest ones; None keeps all."""

    name: str
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A key, its value, and its version, from 1. A stored record that somebody has spoilt has the version 0.

    ``at``: when a stored record of a ``listed`` kind was written, by the store's clock.
    """

    key: bytes
    value: bytes
    version: int = 1
    at: datetime = field(default=EPOCH, compare=False)


class Expects(StrEnum):
    """The version that a :class:`Put` expects in the store; without a stored record, the version is 0."""

    ANY = "any"
    #: The stored version is not greater than the new version.
    NOT_NEWER = "not newer"
    #: The stored version is one less than the new version: for the version 1, no record is stored.
    FOLLOWS = "follows"
    #: Any. The new version is the stored version and 1, so it counts how often the record was stored.
    COUNTED = "counted"


@dataclass(frozen=True, slots=True)
class Put:
    """Store a record. If it is already there, with this version and value, that counts as written.

    Then its time to live begins again, and never becomes shorter. A record of a ``listed`` kind may outlive
    its time to live while others of the kind are written.
    """

    kind: Kind
    record: Record
    expects: Expects = Expects.ANY
    time_to_live: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a record; for a ``listed`` kind, delete all from ``key`` to ``last``, both included."""

    kind: Kind
    key: bytes
    last: bytes | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Add a line to a log: JSON, or text in ASCII. Its ``id`` is unique, in hexadecimal digits.

    Lines can be searched by ``about``.
    """

    log: Log
    id: str
    line: str
    about: bytes = b""


@dataclass(frozen=True, slots=True)
class Get:
    """Read a record in the same step; this changes nothing.

    If it is ``required``, the step is refused without it, or if it has not the ``version`` that is named, and
    nobody else changes it in the meantime.
    """

    kind: Kind
    key: bytes
    required: bool = False
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Settle:
    """Settle an entry of the trigger in the same step, as :meth:`HistoryStore.settle` does.

    With ``once``, an entry that was settled before is refused, even if it was settled in the same way.
    """

    settlement: Settlement
    once: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """Turn an entry of the trigger from COMPLETED ok into failed in the same step, if it has this fence.

    Any other entry stays as it is, and nothing is refused. ``digest``: that of the uuid.
    """

    digest: bytes
    fence: Fence


@dataclass(frozen=True, slots=True)
class Now:
    """Read the store's clock in the same step: ``at`` of the answer is its time."""


Change = Put | Delete | Append | Get | Settle | Fail | Now


def line_id() -> str:
    """Return an id that no other line has; the ids of a process are in the order of time."""
    return f"{time.time_ns():016x}{os.urandom(4).hex()}"


class LogLine(NamedTuple):
    """A line, the time of the store's clock when it was added, and the cursor that continues after it."""

    line: str | bytes
    at: datetime
    cursor: str


class LogPage(NamedTuple):
    """Some lines, the newest first. ``cursor`` continues with older ones and is None at the end."""

    lines: Sequence[LogLine]
    cursor: str | None


class View(NamedTuple):
    """All records of some kinds, the greatest key first, as they were at one instant of the store's clock."""

    at: datetime
    records: Sequence[Sequence[Record]]


class Records(Protocol):
    """Keeps records and logs. Every call may be sent twice.

    Every method raises :class:`~history.errors.HistoryUnavailableError` if the server does not answer.
    """

    async def apply(
        self, trigger: str, changes: Sequence[Change], *, each: bool = False
    ) -> Sequence[Record | None]:
        """Make all changes in one atomic step, or none if one is refused; see :func:`is_refused`.

        A change is refused if a record is not as a :class:`Put` expects, if a required record is missing or
        has another version, or if the history refuses a settlement. With ``each``, every change is
        independent, and a store may make them in several steps; then no entry changes. No key is written
        twice. A step that only appends, or has no trigger, does not wait for replicas.

        Return for each change the record that is stored now; the version of a counted record may be missing.
        For a settlement, return any record, or None if it is refused. If no change was made, only the answer
        to a refused change shows it.
        """
        ...

    async def get(self, trigger: str, kind: Kind, keys: Sequence[bytes]) -> Sequence[Record | None]:
        """Return the record of each key; None if there is none, or its time to live is over."""
        ...

    async def page(
        self, trigger: str, kind: Kind, *, prefix: bytes = b"", before: bytes | None = None, limit: int = 100
    ) -> Sequence[Record]:
        """Return some records of a ``listed`` kind, greatest key first; ``before``: only smaller keys."""
        ...

    async def view(self, trigger: str, kinds: Sequence[Kind]) -> View:
        """Return all records of some ``listed`` kinds, as they were at one instant."""
        ...

    async def count(self, trigger: str, kind: Kind) -> int:
        """Count the records of a ``listed`` kind, without reading them."""
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
        """Return some lines, the newest first; without a cursor, only lines added before an instant.

        A line that was sent twice may occur twice.

        Raises:
            ConfigurationError: the cursor does not belong to this log.
        """
        ...

    async def forget(self, trigger: str, kind: Kind | Log, age: timedelta) -> int:
        """Delete records or lines that have not changed for longer, by the store's clock; return how many.

        One call deletes a bounded number of records of a ``listed`` kind.
        """
        ...


async def clock_of(records: Records) -> datetime:
    """Return the time of the store's clock."""
    (read,) = await records.apply(NO_TRIGGER, [Now()])
    assert read is not None  # noqa: S101  (as the protocol has it)
    return read.at


async def all_records(
    records: Records, trigger: str, kind: Kind, *, prefix: bytes = b"", limit: int = 500
) -> Sequence[Record]:
    """Return all records of a ``listed`` kind, greatest key first, in pages of ``limit``."""
    every = list(page := await records.page(trigger, kind, prefix=prefix, limit=limit))
    while len(page) == limit:
        before = page[-1].key
        every += (page := await records.page(trigger, kind, prefix=prefix, before=before, limit=limit))
    return every


def is_refused(change: Change, answer: Record | None) -> bool:
    """Whether this answer to a change says that it was refused."""
    match change:
        case Put(record=record, expects=expects):
            return expects is not Expects.COUNTED and record != answer
        case Get(required=True, version=version):
            return answer is None or version not in {None, answer.version}
        case Settle():
            return answer is None
        case _:
            return False


def is_done(changes: Sequence[Change], answers: Sequence[Record | None]) -> bool:
    """Whether no change was refused."""
    return not any(map(is_refused, changes, answers))


def end_of(prefix: bytes) -> bytes:
    """Return a key that is greater than every key with this prefix."""
    return prefix + b"\xff" * LONGEST_KEY


def wrong_cursor() -> ConfigurationError:
    """Return the error for a cursor that does not come from a page of this log."""
    return ConfigurationError("cursor", "it is none of this log", "begin at the newest record")
