"""Files that may be deleted or replaced by another, a backup for one, while a process has them open.

SQLite goes on with the file that it has opened, which no other process finds any more, and says nothing. Its
own test of that, by number of the file on its device, is the one here; it makes it too late, and not always.
"""

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenFile:
    """A file of SQLite, and which one its path led to when that was last looked at. Safe between threads.

    ``times`` counts how often it was another one than before.
    """

    path: Path
    #: What those who use it lose with it, for the log.
    lost: str
    times: int = 0
    #: Device and number; None where there was no file.
    identity: tuple[int, int] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def look(self) -> tuple[int, int] | None:
        """Return which file the path leads to, in one call of the system; say so once where it is another."""
        try:
            found = self.path.stat()
            now = (found.st_dev, found.st_ino)
        except OSError:
            now = None
        if now != self.identity:
            self._note(now)
        return now

    def forget(self) -> None:
        """Note that it is not open any more: another one may be there at the next look."""
        with self._lock:
            self.identity = None

    def _note(self, now: tuple[int, int] | None) -> None:
        with self._lock:
            before, self.identity = self.identity, now
            if before is None or before == now:
                return
            self.times += 1
        became = "deleted" if now is None else "replaced by another file"
        _log.critical(
            "%s was %s while it was open. What is there now is used, or made: %s. Stop all processes that use"
            " a file of SQLite before you delete, move or restore it",
            self.path,
            became,
            self.lost,
        )
