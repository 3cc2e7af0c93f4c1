"""The processes of the crash test of order, of which the active one is killed or frozen now and then."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from history.bridge import drive
from history.opening import open_history
from tests.crash.ordering_service import NAME, effects_of
from triggers.ordering import ACTIVE_CONSUMER

#: How long nothing may happen before the test gives up, in seconds.
PATIENCE = 60.0

_ROOT = Path(__file__).parents[2]


@dataclass(slots=True, kw_only=True)
class OrderingFleet:
    """So many processes, running while it is entered."""

    folder: Path
    provider: str
    history: str
    processes: int
    hits: int = 0
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def hit_until(
        self,
        is_done: Callable[[], bool],
        due: list[int],
        hit: Callable[[Self, subprocess.Popen[bytes]], None],
    ) -> None:
        """Hit the active process when so many effects have happened as ``due`` says, until all is done."""
        effects, changed = 0, time.monotonic()
        while due or not is_done():
            seen = effects_of(self.folder).count()
            if seen != effects:
                effects, changed = seen, time.monotonic()
            assert time.monotonic() - changed < PATIENCE, f"nothing has happened for a minute:\n{self.tail()}"
            assert all(one.poll() is None for one in self._running), f"one has ended:\n{self.tail()}"
            if due and due[0] <= effects and (active := self._active()) is not None:
                del due[0]
                hit(self, active)
                self.hits += 1
            time.sleep(0.02)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and start another in its place."""
        process.kill()
        process.wait()
        self._running.remove(process)
        self._running.append(self._start())

    def freeze(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process until another one is active, and something has happened there; then let it go on."""
        process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + PATIENCE
        before: int | None = None
        while True:
            assert time.monotonic() < deadline, f"nobody takes over:\n{self.tail()}"
            active = self._active()
            if before is None and active is not None and active is not process:
                before = effects_of(self.folder).count()
            if before is not None and effects_of(self.folder).count() > before + 10:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGCONT)

    def _active(self) -> subprocess.Popen[bytes] | None:
        """Return the active process; None while it is a dead one, or none."""
        store = open_history(self.history)
        entry = drive(store.lookup(NAME, [ACTIVE_CONSUMER]))[0]
        drive(store.close())
        if entry is None or entry.owner is None:
            return None
        process = int(entry.owner.split(":")[1])
        return next((one for one in self._running if one.pid == process), None)

    def drain(self) -> None:
        """End all with SIGTERM."""
        for one in self._running:
            one.send_signal(signal.SIGTERM)
        for one in self._running:
            # One that has just been started does not know yet what to do about it.
            assert one.wait(PATIENCE) in (0, -signal.SIGTERM), self.tail()

    def tail(self) -> str:
        """Return the end of what the processes had to say."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def _start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.crash.ordering_service", str(self.folder)]
        words += [self.provider, self.history]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(words, cwd=_ROOT, env={**os.environ}, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        self._running.extend(self._start() for _ in range(self.processes))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._running:
            one.kill()
            one.wait()
