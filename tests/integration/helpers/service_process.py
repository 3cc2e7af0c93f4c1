"""``doubtless run tests.integration.helpers.services`` as a real process."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import ROOT
from tests.fixtures.ledger import Ledger
from tests.fixtures.waiting import PATIENCE, eventually


class Served:
    """One process of the command line, inside a ``with`` block; killed at the end if it has not ended."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._log = folder / "served.log"
        ours = {"SERVED": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        command = [sys.executable, "-m", "triggers.cli", "run", "tests.integration.helpers.services", *words]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **ours}, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait until it has ended, and return its exit code."""
        return self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        if error is not None:
            sys.stderr.write(self.log)  # for pytest to show


class Steering:
    """The folder by which a test watches and steers the services."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._notes = Ledger(folder / "notes")

    def serve(self, *words: str) -> Served:
        return Served(self.folder, *words)

    def let_end(self, *uuids: str) -> None:
        """Let the services of these messages end, now or when they begin."""
        for uuid in uuids:
            (self.folder / uuid).touch()

    def noted(self, what: str, uuid: str | None = None) -> list[tuple[str, int]]:
        """Return the uuids that have "begun" or are "done", and the processes that noted it."""
        lines = [words for words in self._notes.lines() if words[0] == what]
        return [(name, int(pid)) for _, name, pid in lines if uuid in {None, name}]

    def wait_for(self, what: str, uuid: str) -> int:
        """Wait until a message has "begun" or is "done", and return the process."""
        eventually(lambda: self.noted(what, uuid))
        return self.noted(what, uuid)[-1][1]


def is_running(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
