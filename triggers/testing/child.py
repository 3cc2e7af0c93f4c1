"""A server that runs as a child of this process, to be started, stopped, killed and started again."""

import subprocess
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ChildServer(ABC):
    """What all such servers have in common: the process, and its end. It runs while it is entered."""

    _process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the child process lives."""
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def start(self) -> Self:
        """Start, or start again on the same port and data, and wait until it answers."""

    def stop(self) -> None:
        """Ask it to end, and wait; what was acknowledged is on disk."""
        self._end(kill=False)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        if self._process is None:
            return
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
