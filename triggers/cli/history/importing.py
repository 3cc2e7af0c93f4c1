"""Entries from a file of another system: its messages are duplicates here, as they would be there.

A row names a uuid and how its message ended. The rows of a file may come in any order. A file may be imported
again, for example after the import was killed: entries that are there already stay as they are.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from history.bridge import drive
from history.entry import EntryOutcome, Settlement
from history.errors import ConfigurationError
from history.identity import IdentityError, canonical
from history.message import Uuid
from history.store import HistoryStore
from triggers.service.checking import check_name

#: Who owns the entries: always the same, so that an import that is repeated goes on where it was.
OWNER: Final = "import"

#: How many rows are written at a time.
PIECE: Final = 1000

#: How far a clock may be ahead.
SKEW: Final = timedelta(days=1)

#: What a status means. None is a message that was started and has not ended: it is In Doubt when it comes.
STATUSES: Final[Mapping[str, EntryOutcome | None]] = {
    "completed": EntryOutcome.OK,
    "failed": EntryOutcome.FAILED,
    "started": None,
    "processing": None,
}

#: How many units a second has in a number since 1970, by its digits. Other numbers may be dates: 20261120.
_UNITS: Final[Mapping[int, int]] = {10: 1, 13: 1000}


class ImportedRow(NamedTuple):
    """One message of the other system. ``at`` is when it ended, or began; None is now."""

    trigger: str
    uuid: str
    outcome: EntryOutcome | None
    at: datetime | None


class BadRow(NamedTuple):
    """A line that is not imported, and why."""

    line: int
    problem: str


@dataclass(slots=True)
class ImportTally:
    """What became of the rows, by trigger."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict[str, Counter[str]](Counter))
    bad: list[BadRow] = field(default_factory=list[BadRow])


def read_rows(lines: Iterable[str], trigger: str | None) -> Iterator[ImportedRow | BadRow]:
    """Read CSV whose first line names the columns: uuid, and if there are any trigger, status and time.

    Other columns are ignored. ``trigger`` is that of rows without one.

    Raises:
        ConfigurationError: there is no column ``uuid``, or no row could have a trigger.
    """
    reader = csv.reader(lines, strict=True)
    try:
        names = [name.strip().lower() for name in next(reader, list[str]())]
    except csv.Error as error:
        raise ConfigurationError("FILE", f"its first line is not CSV: {error}", "correct it") from error
    if "uuid" not in names:
        raise ConfigurationError("FILE", "has no column uuid", "let its first line be uuid,status,time")
    if trigger is None and "trigger" not in names:
        raise ConfigurationError("FILE", "has no column trigger", "give --trigger")
    return _rows(reader, names, trigger)


def _rows(reader: Any, names: Sequence[str], trigger: str | None) -> Iterator[ImportedRow | BadRow]:
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadRow(reader.line_num, str(error))
            continue
        if values:
            yield _row(dict(zip(names, values, strict=False)), trigger, reader.line_num)


def _row(values: Mapping[str, str], trigger: str | None, line: int) -> ImportedRow | BadRow:
    try:
        uuid = canonical(values.get("uuid", ""))
        if uuid is None:
            return BadRow(line, "uuid is empty")
        uuid.encode()
        named = values.get("trigger") or trigger
        if named is None:
            return BadRow(line, "trigger is empty")
        check_name("trigger", named)
        return ImportedRow(named, uuid, _outcome(values.get("status")), _time(values.get("time")))
    except UnicodeEncodeError:
        return BadRow(line, "uuid is not UTF-8")
    except (IdentityError, ConfigurationError, ValueError) as error:
        return BadRow(line, str(error))


def _outcome(status: str | None) -> EntryOutcome | None:
    word = (status or "completed").strip().lower()
    if word not in STATUSES:
        raise ValueError(f"status {word[:40]!r} is not one of {', '.join(STATUSES)}")
    return STATUSES[word]


def _time(text: str | None) -> datetime | None:
    text = (text or "").strip()
    if not text:
        return None
    try:
        if text.isascii() and text.isdecimal():
            at = datetime.fromtimestamp(int(text) / _UNITS[len(text)], UTC)
        else:
            at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (KeyError, ValueError, OverflowError, OSError):
        raise ValueError(
            f"time {text[:40]!r} is not one such as 2026-11-20T10:00:00Z, or a number of 10 or 13 digits"
        ) from None
    if at > datetime.now(UTC) + SKEW:
        raise ValueError(f"time {text[:40]!r} is in the future")
    return at


def import_rows(
    store: HistoryStore, rows: Iterable[ImportedRow | BadRow], time_to_live: timedelta, *, dry: bool = False
) -> ImportTally:
    """Write an entry for each row that the history does not know; with ``dry`` only count.

    An entry lives for what is left of ``time_to_live`` since the row's time.

    Raises:
        HistoryUnavailableError: it does not answer. Import the rows again.
    """
    imported, waiting = ImportTally(), defaultdict[tuple[str, datetime | None], list[ImportedRow]](list)
    now = datetime.now(UTC)
    for row in rows:
        if isinstance(row, BadRow):
            imported.bad.append(row)
            continue
        # Rows of one hour have one time to live, so that a piece is one call.
        hour = None if row.at is None else row.at.replace(minute=59, second=59, microsecond=0)
        piece = waiting[row.trigger, hour]
        piece.append(row)
        if len(piece) >= PIECE:
            _write(store, waiting.pop((row.trigger, hour)), _left(hour, now, time_to_live), imported, dry=dry)
    for (_, hour), piece in waiting.items():
        _write(store, piece, _left(hour, now, time_to_live), imported, dry=dry)
    return imported


def _left(hour: datetime | None, now: datetime, time_to_live: timedelta) -> timedelta:
    return time_to_live if hour is None else min(hour, now) + time_to_live - now


def _write(
    store: HistoryStore, rows: Sequence[ImportedRow], left: timedelta, imported: ImportTally, *, dry: bool
) -> None:
    trigger = rows[0].trigger
    counts = imported.counts[trigger]
    # The first row of a uuid counts. A message that has ended may also have a row from its beginning.
    rows = sorted(rows, key=lambda row: row.outcome is None)
    if left <= timedelta(0):
        counts["expired"] += len(rows)
        return
    uuids = [row.uuid for row in rows]
    if dry:
        entries = dict(zip(uuids, drive(store.lookup(trigger, uuids)), strict=True))
        first = {row.uuid: index for index, row in reversed([*enumerate(rows)])}
        are_known = [
            entries[row.uuid] is not None or first[row.uuid] < index for index, row in enumerate(rows)
        ]
        counts["known"] += sum(are_known)
        counts.update(
            _word(row.outcome) for row, is_known in zip(rows, are_known, strict=True) if not is_known
        )
        return
    claims = drive(store.claim(trigger, uuids, OWNER, time_to_live=left))
    mine = [(row, claim.fence) for row, claim in zip(rows, claims, strict=True) if claim.found is None]
    ends = [
        Settlement(Uuid(row.uuid), fence, row.outcome, OWNER)
        for row, fence in mine
        if row.outcome is not None
    ]
    if ends:
        drive(store.settle(trigger, ends))
    counts["known"] += len(rows) - len(mine)
    counts.update(_word(row.outcome) for row, _ in mine)


def _word(outcome: EntryOutcome | None) -> str:
    return next(word for word, meaning in STATUSES.items() if meaning is outcome)
