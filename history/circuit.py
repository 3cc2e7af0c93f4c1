"""A circuit breaker: while a server does not answer, calls fail immediately and one thread probes the server.

Without it, every call of every thread would wait for its own connect time-out, again and again. This is the
fail-fast mode of webMethods' JDBC aliases: one failed attempt to connect opens the circuit. A background
monitor closes it when it sees the server again. An error reply never opens it, because the server answered. A
reply that does not come in time opens it only if a probe then fails as well.
"""

import logging
import os
import random
import threading
import time
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime

from history.errors import ConfigurationError, HistoryUnavailableError

_log = logging.getLogger(__name__)

#: The longest pause between two probes, in seconds.
PROBE_INTERVAL = 1.0

#: The first pause, in seconds: short, so that a server that only restarts costs little time.
FIRST_PAUSE = 0.05

#: By how much a pause may differ, so that the probes of many processes do not come at the same moment.
JITTER = 0.1

#: How long a probe waits for the server, in seconds.
PROBE_TIMEOUT = 2.0

#: The name of a probing thread.
THREAD_NAME = "doubtless-probe"

#: Whether this thread is probing: the driver's edge makes its time-outs short then.
PROBING: ContextVar[bool] = ContextVar("PROBING", default=False)


class CircuitOpenError(HistoryUnavailableError):
    """The document history did not answer an earlier call, so this call was not sent."""

    def __init__(self, doing: str, *, since: datetime, reason: str, next_probe: float) -> None:
        super().__init__(doing)
        self.since = since
        opened = f"the circuit is open since {since:%Y-%m-%d %H:%M:%S} UTC ({reason})"
        self.args = (f"{self}: {opened}, next probe in {max(0.0, next_probe):.1f} s",)


@dataclass(slots=True)
class _Opening:
    """From a failure to the answer that ends it. Instants are monotonic seconds, except ``since``."""

    reason: str
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.monotonic)
    next_probe: float = 0.0
    confirmed: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def age(self) -> float:
        return time.monotonic() - self.began

    def pause(self) -> float:
        """Note when the next probe is due, and return the seconds until then."""
        seconds = pause_after(self.age)
        self.next_probe = time.monotonic() + seconds
        return seconds


def pause_after(age: float) -> float:
    """Return the seconds until the next probe of a server that is away for ``age`` seconds: about a quarter.

    So a restart is noticed soon, and a server that stays away gets at most about one probe a second.
    """
    seconds = min(PROBE_INTERVAL, FIRST_PAUSE + age / 4)
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  (no secret)


class Circuit:
    """Knows whether calls to one server are worth a try; safe between threads, event loops and forks.

    If ``is_open`` is true, callers call :meth:`refuse`. While it is open, a daemon thread calls ``answers``,
    which blocks. The thread ends when that returns true, the circuit is closed for good, or nobody refers to
    it. ``what`` names the server in the log. A circuit that is not ``enabled`` never opens.
    """

    def __init__(self, what: str, answers: Callable[[], bool], *, enabled: bool = True) -> None:
        self.is_open = False
        self.enabled = enabled
        self._what = what
        self._answers = answers
        # One per process: a forked child does not have the thread that would close its parent's. No lock,
        # because after a fork nobody may release one that was held; setdefault and pop are atomic.
        self._openings: dict[int, _Opening] = {}

    def refuse(self, doing: str) -> None:
        """Raise, unless the circuit has closed by now, or was opened before this process was forked.

        Raises:
            CircuitOpenError: it is open.
        """
        opening = self._openings.get(os.getpid())
        if opening is None:
            self.is_open = False
            return
        raise CircuitOpenError(
            doing,
            since=opening.since,
            reason=opening.reason,
            next_probe=opening.next_probe - time.monotonic(),
        )

    def open(self, error: Exception, *, sure: bool = True) -> None:
        """Fail fast because of ``error``: immediately if ``sure``, else when a probe fails as well.

        A failed attempt to connect leaves no doubt. A reply that did not come in time may just be slow.
        """
        if not self.enabled:
            return
        mine = _Opening(str(error).partition("\n")[0])
        opening = self._openings.setdefault(os.getpid(), mine)
        if sure:
            self._confirm(opening)
        if opening is not mine:
            return
        watch = threading.Thread(target=_watch, args=(weakref.ref(self), mine), name=THREAD_NAME, daemon=True)
        try:
            watch.start()
        except RuntimeError:  # the interpreter is ending
            self.end(mine)

    def _confirm(self, opening: _Opening) -> None:
        if not opening.confirmed:
            opening.confirmed = True
            _log.warning(
                "%s does not answer (%s): calls fail at once until it does", self._what, opening.reason
            )
        self.is_open = True

    def close(self) -> None:
        """End the probing, and never open again."""
        self.enabled = False
        opening = self._openings.get(os.getpid())
        if opening is not None:
            self.end(opening)

    def probe(self) -> bool:
        """Probe the server once, close the circuit if it answers, and return whether it did."""
        opening = self._openings.get(os.getpid())
        try:
            answers = self._answers()
        except Exception as error:  # noqa: BLE001  (whatever a driver raises, the server did not answer)
            _log.debug("a probe failed: %r", error)
            answers = False
        if opening is None or opening.over.is_set():
            return answers
        if not answers:
            self._confirm(opening)
        else:
            self.end(opening)
            if opening.confirmed:
                _log.warning("%s answers again, after %.1f s", self._what, opening.age)
        return answers

    def end(self, opening: _Opening) -> None:
        """Close the circuit, if ``opening`` is the reason why it is open."""
        opening.over.set()
        if self._openings.get(os.getpid()) is opening:
            # In this order: if the circuit is opened in between, the next call finds it closed, not stuck.
            self.is_open = False
            self._openings.pop(os.getpid(), None)


def _watch(circuit: "weakref.ref[Circuit]", opening: _Opening) -> None:
    """Probe until the server answers, the circuit is closed, or nobody refers to it any more."""
    PROBING.set(True)
    try:
        while not opening.over.wait(opening.pause()):
            watched = circuit()
            if watched is None or watched.probe():
                return
            del watched
    finally:
        # However this thread ends: afterwards nobody else would close the circuit.
        watched = circuit()
        if watched is not None:
            watched.end(opening)


def is_on(value: str | None) -> bool:
    """Read ``?circuit=off`` of a history's URL.

    Raises:
        ConfigurationError: it is neither on nor off.
    """
    if value not in {None, "on", "off"}:
        raise ConfigurationError(
            "circuit", f"must be on or off, not {value!r}", "write ?circuit=off in the URL, or leave it out"
        )
    return value != "off"
