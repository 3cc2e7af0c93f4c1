"""The journal and the security log: one log for each trigger, and one log without a trigger."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from history.entry import digest
from history.store.journal import JOURNAL_LENGTH, JournalLine, told_once
from history.store.records import NO_TRIGGER, Append, Log, LogLine, Records
from history.store.security import SecurityPage, SecurityRecord, recorded_once
from history.support.spoilt import readable

JOURNAL = Log("journal", most=JOURNAL_LENGTH)

#: Lines are deleted only because of their age.
SECURITY = Log("security")


class RecordedJournal:
    """Lines in a log of a store; as safe as the log, and shared in the same way."""

    def __init__(self, records: Records, log: Log = JOURNAL) -> None:
        self._records, self._log = records, log

    async def append(self, trigger: str, lines: list[JournalLine]) -> None:
        """Add lines, in one call."""
        changes = [
            Append(self._log, line.id, line.to_json(), b"" if line.uuid is None else digest(line.uuid))
            for line in lines
        ]
        await self._records.apply(trigger, changes)

    async def read(self, trigger: str, uuid: str | None = None, *, limit: int = 100) -> list[JournalLine]:
        """Return the last lines, for one uuid or all; the log is read from its end."""
        about, cursor = None if uuid is None else digest(uuid), None
        lines: list[JournalLine] = []
        while True:
            page = await self._records.log(trigger, self._log, about=about, cursor=cursor, limit=limit)
            named = ((f"of the trigger {trigger} ({line.cursor})", line) for line in page.lines)
            lines = told_once([*lines, *readable("the journal's line", named, _line)])
            cursor = page.cursor
            if cursor is None or len(lines) >= limit:
                return lines[:limit][::-1]


def _line(line: LogLine) -> JournalLine:
    return JournalLine.from_json(line.line, line.at)


class RecordedSecurityLog:
    """Security records in a log of a store; as safe as the log, and shared in the same way."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def append(self, records: Sequence[SecurityRecord]) -> None:
        """Add records, in one call."""
        changes = [Append(SECURITY, record.id, record.to_json()) for record in records]
        await self._records.apply(NO_TRIGGER, changes)

    async def read(
        self, *, before: datetime | None = None, cursor: str | None = None, limit: int = 100
    ) -> SecurityPage:
        """Return some records, the newest first."""
        page = await self._records.log(NO_TRIGGER, SECURITY, before=before, cursor=cursor, limit=limit)
        named = ((f"security record {line.cursor}", line.line) for line in page.lines)
        records = readable("security record", named, SecurityRecord.from_json)
        return SecurityPage(recorded_once(records), page.cursor)

    async def delete_older(self, age: timedelta) -> None:
        """Delete records by their age."""
        await self._records.forget(NO_TRIGGER, SECURITY, age)
