"""``--processes N``: children that run the same command, started again when they crash."""

import logging
import os
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from types import FrameType

from triggers.consumer.drain import catch

_log = logging.getLogger(__name__)

#: A child that lived at least this long, in seconds, is restarted immediately; after a shorter life, later.
HEALTHY_LIFE = 10.0

#: The first and the longest pause before a crashed child is started again, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0

#: Exit codes after which a restart would not help: done, and wrong usage or configuration.
FINAL_CODES = frozenset({0, 2})

#: How often the children are checked, in seconds.
LOOK_INTERVAL = 0.05


@dataclass(slots=True)
class _Child:
    """One place for a process; ``process`` is None while it waits to be started."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    started: float = 0.0
    due: float = 0.0
    pause: float = FIRST_PAUSE

    def note_crash(self, now: float) -> None:
        """Have the process restarted, later with each crash that comes soon after its start."""
        healthy = now - self.started >= HEALTHY_LIFE
        self.pause = FIRST_PAUSE if healthy or self.starts == 1 else min(self.pause * 2, LONGEST_PAUSE)
        self.process, self.due = None, now + self.pause


def supervise(processes: int, name: str | None, metrics: str | None = None) -> int:
    """Run this command line in this many children until all have ended; return the exit code.

    Child number n serves metrics at the nth port from the port of ``metrics`` on. Signals are passed on. A
    child that crashes is restarted, with back-off if it crashes soon. A child without its parent drains and
    ends.
    """
    return _Supervisor(processes, name, metrics).run()


@dataclass(slots=True)
class _Supervisor:
    processes: int
    name: str | None
    metrics: str | None
    code: int = 0
    _stopping: bool = False
    _children: list[_Child] = field(default_factory=list[_Child])
    _signals: deque[int] = field(default_factory=deque[int])
    _handed_on: set[int] = field(default_factory=set[int])

    def run(self) -> int:
        catch(self._note)
        self._children = [_Child(number) for number in range(self.processes)]
        while self._children:
            self._hand_on()
            self._children = [child for child in self._children if self._look_after(child)]
            time.sleep(LOOK_INTERVAL)
        return self.code

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # The loop passes it on: a child may be half started at this moment.
        self._signals.append(number)

    def _hand_on(self) -> None:
        while self._signals:
            number = self._signals.popleft()
            self._stopping = True
            self._handed_on.add(number)
            for child in self._children:
                if child.process is not None:
                    child.process.send_signal(number)

    def _look_after(self, child: _Child) -> bool:
        """Start a child that is due, note its end; False if its place is given up."""
        if child.process is None:
            if not self._stopping and time.monotonic() >= child.due:
                self._start(child)
            return not self._stopping
        ended = child.process.poll()
        if ended is None:
            return True
        if self._stopping or ended in FINAL_CODES:
            # A child that ends by the signal itself had only just started, and held nothing: it is drained.
            if -ended not in self._handed_on:
                self.code = max(self.code, ended if ended >= 0 else 128 - ended)
            return False
        child.note_crash(time.monotonic())
        _log.warning(
            "process %d ended with exit code %d: starting it again in %.1f s",
            child.number,
            ended,
            child.pause,
        )
        return True

    def _start(self, child: _Child) -> None:
        words = _without(sys.argv[1:], "--processes", "--name", "--metrics")
        command = [sys.executable, "-m", "triggers.cli", *words, "--parent", str(os.getpid())]
        if self.name is not None:
            # Never the same name: the provider may hold a dead consumer's name for a while.
            again = f".{child.starts}" if child.starts else ""
            command += ["--name", f"{self.name}-{child.number}{again}"]
        if self.metrics is not None:
            command += ["--metrics", port_after(self.metrics, child.number)]
        # A separate session, so that Ctrl-C reaches the child once: from us.
        child.process = subprocess.Popen(command, start_new_session=True)
        child.started = time.monotonic()
        child.starts += 1


def port_after(address: str, number: int) -> str:
    """Return the address with a port that is higher by ``number``; an invalid address unchanged."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + number}" if port.isdecimal() and int(port) else address


def _without(words: list[str], *options: str) -> list[str]:
    """Return a command line without these options and their values."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in options:
            skip = True
        elif not word.startswith(tuple(f"{option}=" for option in options)):
            kept.append(word)
    return kept
