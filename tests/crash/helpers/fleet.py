"""Processes of a crash test that run in parallel, and are hit and started again until all work is done."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import ROOT
from tests.fixtures.ledger import Ledger
from tests.fixtures.waiting import PATIENCE, patiently, too_long

#: For how long nothing may happen, in seconds: if the answer to a claim was lost, its message waits for a
#: lease of up to a minute, and it may be the last message.
STANDSTILL = 2 * PATIENCE


@dataclass(slots=True, kw_only=True)
class Fleet:
    """Several processes of ``python -m SERVICE FOLDER PROVIDER HISTORY ...``, inside a ``with`` block."""

    service: str
    folder: Path
    effects: Ledger
    provider: str
    history: str
    processes: int
    options: Sequence[str] = ()
    running: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def watch(self, is_over: Callable[[], bool]) -> Iterator[int]:
        """Yield the number of effects, again and again, until it is over; fail if nothing happens."""
        effects, changed = 0, time.monotonic()
        while not is_over():
            seen = self.effects.count()
            if seen != effects:
                effects, changed = seen, time.monotonic()
            quiet = time.monotonic() - changed
            assert not too_long(quiet, STANDSTILL), f"nothing has happened for {quiet:.0f} s:\n{self.tail()}"
            self._check_living()
            yield effects
            time.sleep(0.05)

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until a condition is true, while all processes live."""
        begun = time.monotonic()
        while not condition():
            waited = time.monotonic() - begun
            assert not too_long(waited, PATIENCE), f"not within {waited:.0f} s:\n{self.tail()}"
            self._check_living()
            time.sleep(0.05)

    def _check_living(self) -> None:
        assert all(one.poll() is None for one in self.running), f"a process has ended:\n{self.tail()}"

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and start another instead."""
        process.kill()
        process.wait()
        self.running.remove(process)
        self.join()

    def join(self) -> subprocess.Popen[bytes]:
        self.running.append(self._start())
        return self.running[-1]

    def leave(self, process: subprocess.Popen[bytes]) -> None:
        """End a process with SIGTERM, and do not replace it."""
        process.send_signal(signal.SIGTERM)
        assert patiently(process.wait) == 0, self.tail()
        self.running.remove(process)

    def drain(self) -> None:
        """End all with SIGTERM."""
        for one in self.running:
            one.send_signal(signal.SIGTERM)
        for one in self.running:
            # A process that has just started does not handle the signal yet.
            assert patiently(one.wait) in (0, -signal.SIGTERM), self.tail()

    def tail(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def _start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", self.service, str(self.folder), self.provider, self.history]
        words += self.options
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(words, cwd=ROOT, env={**os.environ}, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        self.running.extend(self._start() for _ in range(self.processes))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self.running:
            one.kill()
            one.wait()
