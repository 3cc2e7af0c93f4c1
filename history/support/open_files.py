"""Files that may be deleted or replaced, such as by a backup, while a process has them open.

SQLite silently goes on with the file that it has opened, although other processes cannot find it any more.
SQLite's own test, by the number of the file on its device, is late and does not always run. It is also here.
"""

import logging
import os
import threading
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

_log = logging.getLogger(__name__)

#: How many bytes at the start of SQLite's write-ahead log tell one log from the next.
HEAD = 32

#: The consequence when the log of one file is left beside another file.
SPOILT = (
    "nothing is read or written, because SQLite would write the log of the old file into the new one, and "
    "damage it. If the new file is a backup, delete %s-wal and %s-shm. If it is an unchanged copy of the old "
    "file, restart the processes"
)


class Identity(NamedTuple):
    """The identity of a file, whatever its name."""

    device: int
    number: int


class _Log(NamedTuple):
    """The write-ahead log beside a file of SQLite, and its first bytes."""

    identity: Identity
    head: bytes


class _State(Enum):
    """The result of the last look."""

    THERE = "there"
    DELETED = "deleted"
    SPOILT = "spoilt"


@dataclass(slots=True)
class OpenFile:
    """A file of SQLite, and the file that its path led to at the last look. Safe between threads.

    ``deleted`` and ``replaced`` explain the consequences to users, for the log. ``times`` counts how often
    the file was, or may have been, another one than before.
    """

    path: Path
    deleted: str
    replaced: str
    times: int = 0
    _identity: Identity | None = None
    _is_open: bool = False
    _stamp: tuple[int, int] = 0, 0
    _state: _State = _State.THERE
    _own_log: Identity | None = None
    _left_log: _Log | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def look(self) -> Identity | None:
        """Return which file is there, with one system call; log once if it is another one, or missing.

        An empty file that is not the known one counts as missing: somebody is just copying or making it. So
        does a file beside which the log of the earlier file lies.
        """
        before = self._identity
        try:
            status = self.path.stat()
        except OSError:
            return self._note(None, self._stamp) if before else None
        stamp = status.st_size, status.st_mtime_ns
        is_known = before is not None and before.number == status.st_ino and before.device == status.st_dev
        if is_known and self._is_open and self._state is _State.THERE:
            self._stamp = stamp
            return before
        if not status.st_size and self._is_open and not is_known:
            return self._note(None, self._stamp)
        return self._note(Identity(status.st_dev, status.st_ino), stamp)

    @property
    def is_gone(self) -> bool:
        """Whether the file is missing, although one is open."""
        return self.look() is None and self._is_open

    def closed(self) -> None:
        """Note that it is not open any more: from now on somebody may delete or replace it."""
        with self._lock:
            self._is_open, self._state = False, _State.THERE
            self._own_log = self._left_log = None

    def know_log(self, *, anew: bool = False) -> None:
        """Note which log belongs to it, while it is open; ``anew`` forgets the earlier log, after opening."""
        if anew:
            self._own_log = None
        elif self._own_log is None:
            log = self._log_beside()
            self._own_log = None if log is None else log.identity

    def _note(self, now: Identity | None, stamp: tuple[int, int]) -> Identity | None:
        with self._lock:
            before, was, was_open = self._identity, self._state, self._is_open
            # A new file may reuse the number of a deleted one, but has other times.
            is_same = now == before and (was is _State.THERE or stamp == self._stamp)
            is_another = now is not None and before is not None and not is_same
            if was is _State.THERE:
                log = self._log_beside()
                self._left_log = log if log is not None and log.identity == self._own_log else None
            spoils = is_another and self._left_log is not None and self._log_beside() == self._left_log
            if spoils:
                self._state, now, is_another = _State.SPOILT, None, False
            elif now is None and before is not None:
                self._state = _State.DELETED
            else:
                self._state = _State.THERE
            if now is not None:
                self._identity, self._is_open, self._stamp = now, True, stamp
            self.times += is_another or (was is not _State.THERE and now is not None)
            state = self._state
        if was_open:
            self._tell(state, was, is_another=is_another)
        return now

    def _tell(self, state: _State, was: _State, *, is_another: bool) -> None:
        if is_another:
            _log.critical("%s was replaced by another file while it was open: %s", self.path, self.replaced)
        elif state is _State.SPOILT and was is not state:
            meaning = SPOILT % (self.path, self.path)
            _log.critical(
                "%s was replaced by another file while it was open, and its log was left: %s",
                self.path,
                meaning,
            )
        elif state is _State.DELETED and was is not state:
            _log.critical("%s was deleted while it was open: %s", self.path, self.deleted)
        elif state is _State.THERE and was is not state:
            _log.warning("%s is there again, and is used", self.path)

    def _log_beside(self) -> _Log | None:
        """Return the log that SQLite would read with the file that is there now; None if the log is empty."""
        try:
            # SQLite has no locks on this file, which closing it would release.
            with Path(f"{self.path.resolve()}-wal").open("rb") as file:
                status, head = os.fstat(file.fileno()), file.read(HEAD)
        except OSError:
            return None
        return _Log(Identity(status.st_dev, status.st_ino), head) if len(head) == HEAD else None
