"""Files that may be deleted or replaced by another, a backup for one, while a process has them open.

SQLite goes on with the file that it has opened, which no other process finds any more, and says nothing. Its
own test of that, by the number of the file on its device, is the one here; it makes it late, and not always.
"""

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_log = logging.getLogger(__name__)


class Identity(NamedTuple):
    """Which file it is, whatever its name."""

    device: int
    number: int


@dataclass(slots=True)
class OpenFile:
    """A file of SQLite, and which one its path led to when that was last looked at. Safe between threads.

    ``deleted`` and ``replaced`` say what that means to its users, for the log. ``times`` counts how often it
    was another one than before, or may have been.
    """

    path: Path
    deleted: str
    replaced: str
    times: int = 0
    _known: Identity | None = None
    _is_open: bool = False
    _missing: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def look(self) -> Identity | None:
        """Return which file is there, in one call of the system; say so once where it is another, or none.

        One of no length, that is not the one known, counts as none: it is being copied there, or made.
        """
        known = self._known
        try:
            found = self.path.stat()
        except OSError:
            now = None
        else:
            if known and known.number == found.st_ino and known.device == found.st_dev:
                now = known
            else:
                now = Identity(found.st_dev, found.st_ino) if found.st_size or not self._is_open else None
        if now is not known or self._missing or not self._is_open:
            self._note(now)
        return now

    @property
    def is_gone(self) -> bool:
        """Whether there is none, although one is open."""
        return self.look() is None and self._is_open

    def closed(self) -> None:
        """Note that it is not open any more: who deletes or replaces it now may do so."""
        with self._lock:
            self._is_open = self._missing = False

    def _note(self, now: Identity | None) -> None:
        with self._lock:
            was_open, was_missing = self._is_open, self._missing
            is_another = now is not None and self._known not in {None, now}
            self._missing = now is None
            if now is not None:
                self._known, self._is_open = now, True
            # One that is there again may be another one with a number that was free again.
            self.times += is_another or (was_missing and now is not None)
        if is_another and was_open:
            _log.critical("%s was replaced by another file while it was open: %s", self.path, self.replaced)
        elif now is None and was_open and not was_missing:
            _log.critical("%s was deleted while it was open: %s", self.path, self.deleted)
        elif was_missing and was_open and now is not None:
            _log.warning("%s is there again, and is used", self.path)
