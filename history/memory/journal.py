"""The journal in memory."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from history.store.journal import JOURNAL_LENGTH, JournalLine, told_once


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
