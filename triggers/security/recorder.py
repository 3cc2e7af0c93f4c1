"""Writes each record to the history, to the log, and to a file.

The log and the file get it immediately. The history has it before :meth:`Recorder.keep` returns, or soon
after :meth:`Recorder.note`: people who sign in or are refused do not wait for a history that does not answer.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Condition, Lock, Thread

from history.beside.security import KEPT_FOR, SecurityLog, SecurityOutcome, SecurityRecord
from history.bridge import drive
from history.errors import ConfigurationError
from history.support.private_files import create_private
from history.support.rendering import class_of, text_of
from triggers.security.gathering import WINDOW, Gatherer

#: The logger of the records: each message is one JSON object.
LOGGER = logging.getLogger("triggers.security")

# Not below that logger, because its handlers want nothing but JSON.
_log = logging.getLogger("triggers.security_log")

#: How many records wait for a history that does not answer; the log and the file have all of them.
MOST_WAITING = 10_000

#: How many records one call writes.
PIECE = 200

#: After how many seconds a failed history is tried again, and how often old records are deleted.
PAUSE, BETWEEN_DELETIONS = 5.0, 86_400.0

#: How long to wait for the last records at the end, in seconds.
ENDING = 10.0

#: Why the record of a decision reports a failure: nothing was decided.
NOT_KEPT = "the history did not take the record, so nothing was done"

#: The option with its path.
SETTING = "--security-log"


class SecurityFile:
    """A file that lines are added to. If it was renamed or deleted, as by logrotate, a new one is made.

    It is made with mode 0600; an existing file keeps its mode. Safe to share between threads.

    Raises:
        ConfigurationError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        try:
            self._descriptor: int | None = self._open()
        except OSError as error:
            problem = f"{path} cannot be written: {error.strerror}"
            raise ConfigurationError(SETTING, problem, "name a file that you may write") from error

    def write(self, line: str) -> None:
        """Add a line, in one call, so that lines of several processes stay whole.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            descriptor = self._current()
            rest = f"{line}\n".encode()
            while rest:
                rest = rest[os.write(descriptor, rest) :]

    def close(self) -> None:
        """Close it; another line opens it again."""
        with self._lock:
            self._close()

    def _current(self) -> int:
        """Return the descriptor of the file that is at this path now."""
        if self._descriptor is None or not self._is_there(self._descriptor):
            self._close()
            self._descriptor = self._open()
        return self._descriptor

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        create_private(self._path)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityLogging:
    """Where the security log is kept: in the history for ``kept_for``, and in a ``file`` if one is named.

    Raises:
        ConfigurationError: ``kept_for`` is not a positive time.
    """

    file: Path | None = None
    kept_for: timedelta = KEPT_FOR

    def __post_init__(self) -> None:
        if self.kept_for <= timedelta(0):
            problem = f"{self.kept_for} is not a positive time"
            raise ConfigurationError("kept_for", problem, "use timedelta(days=400), for example")

    def opened(self) -> SecurityFile | None:
        """Open the file.

        Raises:
            ConfigurationError: it cannot be written.
        """
        return None if self.file is None else SecurityFile(self.file)


class Recorder:
    """Writes records; safe to share between threads, and it never waits for the history in :meth:`note`.

    ``log`` belongs to the history; None if the history keeps none. Records that are older than ``kept_for``
    are deleted there once a day; with None nothing is deleted. ``background=False`` writes to the history in
    the caller's thread.
    """

    def __init__(
        self,
        log: SecurityLog | None,
        file: SecurityFile | None = None,
        *,
        kept_for: timedelta | None = KEPT_FOR,
        background: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._security_log, self._file, self._kept_for = log, file, kept_for
        self._background, self._clock = background, clock
        self._gatherer = Gatherer()
        self._changed = Condition()
        self._waiting: deque[SecurityRecord] = deque()
        self._dropped = 0
        self._ending = False
        self._deleted_at: float | None = None
        self._thread: Thread | None = None

    def keep(self, records: Sequence[SecurityRecord]) -> None:
        """Write records of the next action; if the history does not take them, the action must not happen.

        Raises:
            Exception: the history does not take them; the store's own error. The log and the file say so.
        """
        if self._security_log is not None and records:
            try:
                drive(self._security_log.append(records))
            except Exception:
                for record in records:
                    self._say(record.after(SecurityOutcome.FAILED, NOT_KEPT))
                raise
        for record in records:
            self._say(record)

    def note(self, record: SecurityRecord) -> None:
        """Write a record of something that has happened; nothing is raised."""
        self._say(record)
        self._line_up([record])

    def count(self, record: SecurityRecord) -> None:
        """Write a record that anybody can cause as often as they want: equal ones are gathered."""
        with self._changed:
            now = self._clock()
            over = self._gatherer.due(now)
            first = self._gatherer.add(record, now)
        ready = over if first is None else [*over, first]
        for ready_record in ready:
            self._say(ready_record)
        self._line_up(ready)

    def wait(self, seconds: float) -> bool:
        """Wait until the history has all noted records; return whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, seconds)

    def close(self) -> None:
        """Write the counts of gathered records, and the waiting ones."""
        with self._changed:
            over = self._gatherer.due(self._clock(), all_=True)
        for record in over:
            self._say(record)
        self._line_up(over)
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(ENDING)
        if self._waiting:
            _log.warning("%d records of the security log are not in the history", len(self._waiting))
        if self._file is not None:
            self._file.close()

    def _say(self, record: SecurityRecord) -> None:
        """Pass a record to the log and the file."""
        line = record.to_json()
        LOGGER.log(logging.INFO if record.outcome is SecurityOutcome.ALLOWED else logging.WARNING, "%s", line)
        if self._file is not None:
            try:
                self._file.write(line)
            except OSError as error:
                _log.error("the file of the security log cannot be written: %s", error.strerror)

    def _line_up(self, records: Sequence[SecurityRecord]) -> None:
        """Queue records for the history."""
        if self._security_log is None:
            return
        with self._changed:
            self._waiting.extend(records)
            self._drop()
            self._changed.notify_all()
            if self._background and self._thread is None and not self._ending:
                self._thread = Thread(target=self._work, name="security log", daemon=True)
                self._thread.start()
        if not self._background:
            self._write(self._security_log)

    def _drop(self) -> None:
        """Drop the oldest waiting records if there are too many; the log and the file have them."""
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self._dropped += 1
            if self._dropped == 1 or self._dropped % MOST_WAITING == 0:
                _log.error(
                    "the history is away for so long that %d records of the security log are only in the log "
                    "and the file",
                    self._dropped,
                )

    def _work(self) -> None:
        log = self._security_log
        while log is not None:
            with self._changed:
                pause = None if self._gatherer.is_empty else WINDOW / 10
                self._changed.wait_for(lambda: self._waiting or self._ending, pause)
                over = self._gatherer.due(self._clock())
                self._waiting.extend(over)
            for record in over:
                self._say(record)
            is_written = self._write(log)
            with self._changed:
                if self._ending and (not self._waiting or not is_written):
                    return
                if not is_written:
                    self._changed.wait_for(lambda: self._ending, PAUSE)

    def _write(self, log: SecurityLog) -> bool:
        """Write the waiting records; return whether all are written."""
        while True:
            with self._changed:
                some = [self._waiting[number] for number in range(min(PIECE, len(self._waiting)))]
            if not some:
                return True
            try:
                drive(log.append(some))
                self._delete_old(log)
            except Exception as error:  # noqa: BLE001  (a store may raise anything: the records continue to wait)
                _log.warning("the security log was not written to the history: %s", text_of(error))
                return False
            with self._changed:
                written = {record.id for record in some}
                self._waiting = deque(record for record in self._waiting if record.id not in written)
                self._changed.notify_all()

    def _delete_old(self, log: SecurityLog) -> None:
        now = self._clock()
        is_due = self._deleted_at is None or now - self._deleted_at >= BETWEEN_DELETIONS
        if self._kept_for is not None and is_due:
            self._deleted_at = now
            try:
                drive(log.delete_older(self._kept_for))
            except Exception as error:  # noqa: BLE001  (as above: they are deleted tomorrow)
                _log.warning("old records of the security log were not deleted: %s", class_of(error))
