"""A server as a child of this process that a test can start, stop, kill and start again."""

import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

#: Waits until the process at the other end of its input has ended, then kills the process or group $1.
_WATCH = 'read _; kill -s KILL -- "$1"'


class Child(subprocess.Popen[bytes]):
    """A process that is killed after this process has ended, in whatever way.

    A test or a demo that is killed runs no ``finally``: its servers would stay. With ``start_new_session``
    the whole group of the process is killed.
    """

    def __init__(self, command: Sequence[str | Path], **options: Any) -> None:
        super().__init__(command, **options)
        group = "-" if options.get("start_new_session") else ""
        # In a separate session, so that Ctrl-C does not end it first.
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", f"{group}{self.pid}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its exit code."""
        code = super().wait(timeout)
        self._end_watcher()
        return code

    def _end_watcher(self) -> None:
        """End the watcher: another process may soon have this process id."""
        self._watcher.kill()
        self._watcher.communicate()


class ChildServer(ABC):
    """The common part of such servers: the process, and its end. It runs while it is entered."""

    _process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the child process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the child process.

        Raises:
            RuntimeError: the process does not exist.
        """
        if self._process is None:
            raise RuntimeError("the server does not run")
        return self._process.pid

    @abstractmethod
    def start(self) -> Self:
        """Start, or start again on the same port and data, and wait until it answers.

        Raises:
            ConfigurationError: the server is not installed.
            RuntimeError: it did not start; the text has the end of its log.
        """

    def stop(self) -> None:
        """Ask it to end, and wait; acknowledged data are on disk."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(by)
        self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()
