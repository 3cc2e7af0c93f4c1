"""The processes of the crash test of joins, killed and started again until nothing is left to do."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.crash.joining_service import effects_of

#: How long nothing may happen before the test gives up, in seconds.
PATIENCE = 60.0

_ROOT = Path(__file__).parents[2]


@dataclass(slots=True, kw_only=True)
class JoiningFleet:
    """So many processes, running while it is entered."""

    folder: Path
    provider: str
    history: str
    processes: int
    kills: int = 0
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def kill_until(self, is_done: Callable[[], bool], due: list[int], chance: random.Random) -> None:
        """Kill when so many effects have happened as ``due`` says, until all are killed and all is done."""
        effects, changed = 0, time.monotonic()
        while due or not is_done():
            seen = len(effects_of(self.folder).lines())
            if seen != effects:
                effects, changed = seen, time.monotonic()
            assert time.monotonic() - changed < PATIENCE, f"nothing has happened for a minute:\n{self.tail()}"
            assert all(one.poll() is None for one in self._running), f"one has ended:\n{self.tail()}"
            while due and due[0] <= effects:
                del due[0]
                time.sleep(chance.uniform(0, 0.02))
                self._kill_one(chance)
            time.sleep(0.05)

    def _kill_one(self, chance: random.Random) -> None:
        """Kill a process that has begun to work, if there is one, and start another in its place."""
        at_work = {words[-1] for words in effects_of(self.folder).lines()}
        victim = chance.choice([one for one in self._running if str(one.pid) in at_work] or self._running)
        victim.kill()
        victim.wait()
        self._running.remove(victim)
        self._running.append(self._start())
        self.kills += 1

    def drain(self) -> None:
        """End all with SIGTERM."""
        for one in self._running:
            one.send_signal(signal.SIGTERM)
        for one in self._running:
            one.wait(PATIENCE)

    def tail(self) -> str:
        """Return the end of what the processes had to say."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def _start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.crash.joining_service", str(self.folder)]
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
