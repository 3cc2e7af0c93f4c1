"""The journal and the security log in memory."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from history.store.journal import JOURNAL_LENGTH, JournalLine, told_once
from history.store.security import SecurityPage, SecurityRecord, wrong_cursor


class MemoryJournal:
    """Lines that live and die with their process; safe to share between threads."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: defaultdict[str, deque[JournalLine]] = defaultdict(lambda: deque(maxlen=JOURNAL_LENGTH))

    async def append(self, trigger: str, lines: list[JournalLine]) -> None:
        """Add lines."""
        with self._lock:
            now = self._clock()
            self._lines[trigger].extend(replace(line, at=now) for line in lines)

    async def read(self, trigger: str, uuid: str | None = None, *, limit: int = 100) -> list[JournalLine]:
        """Return the last lines, those about a uuid or all."""
        with self._lock:
            mine = [line for line in self._lines.get(trigger, ()) if uuid is None or line.uuid == uuid]
        return told_once(mine)[-limit:]


class MemorySecurityLog:
    """Records that live and die with their process; safe to share between threads."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._records: dict[str, tuple[datetime, SecurityRecord]] = {}

    async def append(self, records: Sequence[SecurityRecord]) -> None:
        """Add records; one that is sent twice stands there once."""
        with self._lock:
            now = self._clock()
            for record in records:
                self._records.setdefault(record.id, (now, record))

    async def read(
        self, *, before: datetime | None = None, cursor: str | None = None, limit: int = 100
    ) -> SecurityPage:
        """Return some records, the newest first; the cursor is the id of the last one."""
        with self._lock:
            newest = reversed(list(self._records.values()))
            older = (record for at, record in newest if before is None or at < before)
            if cursor is not None and not any(record.id == cursor for record in older):
                raise wrong_cursor()
            found = list(islice(older, limit))
        return SecurityPage(found, found[-1].id if len(found) == limit else None)

    async def delete_older(self, age: timedelta) -> None:
        """Delete records by their age."""
        with self._lock:
            oldest = self._clock() - age
            self._records = {id_: one for id_, one in self._records.items() if one[0] >= oldest}
