"""The consumers of the soak test: processes, killed and started again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from benchmarks.soak_service import EFFECTS, MOMENT
from tests.fixtures.ledger import Ledger

#: The longest time of a process to drain, in seconds.
DRAIN_PATIENCE = 30.0

_ROOT = Path(__file__).parents[1]


class Effects(Protocol):
    """The effects of the services: uuid, JMSMessageID and process of each."""

    def count(self) -> int:
        """Count the effects."""
        ...

    def lines(self) -> Sequence[tuple[str, ...]]:
        """Return the effects."""
        ...


@dataclass(slots=True, kw_only=True)
class Fleet:
    """So many processes, running while it is entered; in an ``atomic`` soak they share a table of effects.

    Where none is named, their ``service`` is the one of :mod:`benchmarks.soak`. ``moment`` is the longest
    moment on either side of an effect, in seconds.
    """

    folder: Path
    provider: str
    history: str
    processes: int
    atomic: Effects | None = None
    service: str | None = None
    moment: float = 0.004
    kills: int = 0
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    @property
    def effects(self) -> Effects:
        """The store of the services' effects."""
        return self.atomic or self._ledger

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self.folder / "effects")

    def kill_one(self, chance: random.Random) -> None:
        """Kill a process that has begun to work, if there is one, and start another in its place."""
        victim = self._one_at_work(chance)
        victim.kill()
        victim.wait()
        self._running.remove(victim)
        self._running.append(self._start())
        self.kills += 1

    def stop_one(self, chance: random.Random, seconds: float) -> None:
        """Stop a process for a while, like a machine that is paused or swaps."""
        victim = self._one_at_work(chance)
        victim.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        victim.send_signal(signal.SIGCONT)

    def signal_one(self, chance: random.Random, number: signal.Signals) -> None:
        """Send a process that has begun to work a signal."""
        self._one_at_work(chance).send_signal(number)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stop all processes during the block, so that they do not see half of a change."""
        for process in self._running:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in self._running:
                process.send_signal(signal.SIGCONT)

    def _one_at_work(self, chance: random.Random) -> subprocess.Popen[bytes]:
        """Choose a process that has begun to work, if there is one."""
        at_work = {pid for _, _, pid in self.effects.lines()}
        return chance.choice(
            [process for process in self._running if str(process.pid) in at_work] or self._running
        )

    def look_after(self) -> None:
        """See that every process runs.

        Raises:
            RuntimeError: one has ended by itself.
        """
        for process in self._running:
            if process.poll() is not None:
                raise RuntimeError(f"a process ended with {process.returncode}:\n{self.log_tail()}")

    def drain(self) -> list[str]:
        """End all processes with SIGTERM; return what is wrong with how they ended.

        One that was started a moment ago, and has run nothing yet, may not be listening: it just ends.
        """
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        codes = {str(process.pid): process.wait(DRAIN_PATIENCE) for process in self._running}
        at_work = {pid for _, _, pid in self.effects.lines()}
        fine = {pid: {0} if pid in at_work else {0, -signal.SIGTERM} for pid in codes}
        return [
            f"a process that was to drain ended with {code}"
            for pid, code in codes.items()
            if code not in fine[pid]
        ]

    def log_tail(self) -> str:
        """Return the end of the processes' logs."""
        return self.log()[-3000:]

    def log(self) -> str:
        """Return the logs of the processes."""
        return (self.folder / "consumers.log").read_text(errors="replace")

    def _start(self) -> subprocess.Popen[bytes]:
        usual = "benchmarks.soak_service" if self.atomic is None else "benchmarks.soak_atomic_service"
        module = self.service or usual
        command = [sys.executable, "-m", module, self.provider, self.history]
        # Messages that cannot be parked on a server go into a file of this run, not of its user.
        ours = {EFFECTS: str(self._ledger.file), "XDG_STATE_HOME": str(self.folder / "state")}
        ours[MOMENT] = str(self.moment)
        with (self.folder / "consumers.log").open("ab") as log:
            return subprocess.Popen(command, cwd=_ROOT, env={**os.environ, **ours}, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        for _ in range(self.processes):
            self._running.append(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.wait()
