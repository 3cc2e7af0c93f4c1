"""The journal: one log for each trigger, with one line for each verdict that needs an explanation."""

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from history.entry import digest
from history.store.records import Append, Log, LogLine, Records, line_id
from history.support.spoilt import readable

#: About how many lines of each trigger are kept, the latest ones.
JOURNAL_LENGTH = 10_000

#: A longer reason is cut off there; a resolver may return any text.
REASON_LENGTH = 2_000

JOURNAL = Log("journal", most=JOURNAL_LENGTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """The verdict on one delivery, and the reason.

    ``verdict`` is a word such as "duplicate", "in doubt" or "taken over", ``reason`` the sentence of the
    outcome, ``row`` the row of the decision table. ``by`` is the process that wrote it. ``at`` is the time of
    the store's server, None before it is stored. ``id`` is unique to the line, so a line that was sent twice
    is shown once.
    """

    verdict: str
    reason: str
    uuid: str | None = None
    row: int | None = None
    fence: int | None = None
    delivery_count: int = -1
    by: str | None = None
    at: datetime | None = None
    id: str = field(default_factory=line_id)

    def to_json(self) -> str:
        """Return it as JSON in ASCII, without its time."""
        document = asdict(self)
        del document["at"]
        document["reason"] = self.reason[:REASON_LENGTH]
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str | bytes, at: datetime) -> Self:
        """Read what :meth:`to_json` wrote, without fields that a newer version added.

        Raises:
            ValueError, TypeError: the text is not a line.
        """
        document: dict[str, Any] = json.loads(text)
        fields = {name: document[name] for name in cls.__slots__ if name in document}
        return replace(cls(**fields), at=at)


class Journal:
    """Keeps the latest lines of each trigger, in a log of a store. A line may be sent twice."""

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
        """Return the last lines, for one uuid or all, the oldest of them first; read the log from its end."""
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


def told_once(lines: list[JournalLine]) -> list[JournalLine]:
    """Return the lines without repetitions."""
    return list({line.id: line for line in lines}.values())
