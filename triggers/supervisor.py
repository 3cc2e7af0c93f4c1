"""``--processes N``: children that run the same command, started again when they crash."""

import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from types import FrameType

_log = logging.getLogger(__name__)

#: A child that lived at least so long, in seconds, is started again at once; a shorter life waits longer.
HEALTHY_LIFE = 10.0

#: The longest pause before a crashed child is started again, in seconds.
LONGEST_PAUSE = 10.0

#: Exit codes after which starting again would not help: done, and wrong usage or configuration.
FINAL_CODES = frozenset({0, 2})


@dataclass(slots=True)
class _Child:
    number: int
    process: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)
    pause: float = 0.1


def supervise(processes: int, name: str | None) -> int:
    """Run this command line in so many children until all have ended; return the exit code.

    Signals are handed on. A child that crashes is started again, with back-off when it crashes at once. A
    child whose parent is gone drains and ends.
    """
    children = [_start(number, name) for number in range(processes)]
    state = _Signals(children)
    code = 0
    while children:
        for child in list(children):
            ended = child.process.poll()
            if ended is None:
                continue
            children.remove(child)
            if state.stopping or ended in FINAL_CODES:
                code = max(code, ended)
            else:
                children.append(_start_again(child, name, ended))
        time.sleep(0.05)
    return code


class _Signals:
    """Hands SIGTERM and SIGINT on to the children."""

    def __init__(self, children: list[_Child]) -> None:
        self._children = children
        self.stopping = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hand_on)

    def _hand_on(self, number: int, _frame: FrameType | None) -> None:
        self.stopping = True
        for child in self._children:
            child.process.send_signal(number)


def _start(number: int, name: str | None) -> _Child:
    words = _without(sys.argv[1:], "--processes", "--name")
    own = [] if name is None else ["--name", f"{name}-{number}"]
    command = [sys.executable, "-m", "triggers.cli", *words, *own, "--parent", str(os.getpid())]
    # A session of its own, so that Ctrl-C reaches the child once: from us.
    return _Child(number, subprocess.Popen(command, start_new_session=True))


def _start_again(child: _Child, name: str | None, code: int) -> _Child:
    healthy = time.monotonic() - child.started >= HEALTHY_LIFE
    pause = 0.1 if healthy else min(child.pause * 2, LONGEST_PAUSE)
    _log.warning("process %d ended with %d: starting again in %.1f s", child.number, code, pause)
    time.sleep(pause)
    again = _start(child.number, name)
    again.pause = pause
    return again


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
