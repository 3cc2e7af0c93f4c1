"""A file of records, one JSON object a line, for programs that collect logs."""

import os
from pathlib import Path
from threading import Lock

from history.errors import ConfigurationError
from history.support.private_files import create_private

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
