"""The security log: who signed in, was refused, saw a body, decided or gave a command; for administrators."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from starlette.responses import Response

from history.beside.security import SecurityEvent, SecurityLog, SecurityRecord
from history.bridge import drive
from history.errors import ConfigurationError
from triggers.dashboard.visit import Visit
from triggers.operations.journals import refuse_unknown

#: How many records a page shows at least, if they exist, and how many it looks through at most.
ROWS, LOOKED_THROUGH = 50, 2_000

#: The longest time between a record and its storing: counts come late, and clocks differ.
APART = timedelta(hours=1)

#: How long a page waits for records from a moment ago, in seconds.
PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records that a user wants to see: by user, event, and times."""

    who: str | None
    what: str | None
    since: date | None
    until: date | None

    def has(self, record: SecurityRecord) -> bool:
        """Whether it is such a record."""
        day = record.at.astimezone(UTC).date()
        names = [name.casefold() for name in (record.user, record.by, record.sudo_user) if name is not None]
        return (
            (self.who is None or any(self.who.casefold() in name for name in names))
            and self.what in {None, record.event.value}
            and (self.since is None or day >= self.since)
            and (self.until is None or day <= self.until)
        )

    def is_over(self, record: SecurityRecord) -> bool:
        """Whether this record, and all records stored before it, are too old."""
        return self.since is not None and record.at < _midnight(self.since) - APART

    @property
    def before(self) -> datetime | None:
        """The time before which the youngest of them was stored."""
        return None if self.until is None else _midnight(self.until) + timedelta(days=1) + APART


def security(visit: Visit) -> Response:
    """Show the security log, the newest first, or some of it."""
    wanted = Wanted(
        visit.asked("who") or None, visit.asked("what") or None, _day(visit, "since"), _day(visit, "until")
    )
    refuse_unknown("what", "event", wanted.what, [event.value for event in SecurityEvent])
    log = visit.operations.store.security_log
    visit.operations.recorder.wait(PATIENCE)
    rows, cursor = _found(log, wanted, visit.asked("cursor"))
    return visit.show(
        "security.html",
        rows=rows,
        cursor=cursor,
        wanted=wanted,
        events=list(SecurityEvent),
    )


def _found(log: SecurityLog, wanted: Wanted, cursor: str | None) -> tuple[list[SecurityRecord], str | None]:
    """Return the next wanted records, and where the search continues."""
    rows: list[SecurityRecord] = []
    looked = 0
    while len(rows) < ROWS and looked < LOOKED_THROUGH:
        page = drive(log.read(before=wanted.before, cursor=cursor, limit=ROWS))
        rows += filter(wanted.has, page.records)
        looked, cursor = looked + ROWS, page.cursor
        if cursor is None or (page.records and wanted.is_over(page.records[-1])):
            return rows, None
    return rows, cursor


def _day(visit: Visit, name: str) -> date | None:
    text = visit.asked(name)
    parse: Callable[[str], date] = date.fromisoformat
    try:
        return parse(text) if text else None
    except ValueError as error:
        raise ConfigurationError(name, f"{text!r} is not a day", "write it as 2026-01-31") from error


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
