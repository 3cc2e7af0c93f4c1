"""When a consumer drains: after a signal, without its parent, or when no messages come any more."""

import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Self

from triggers.consumer.worker import Worker

_log = logging.getLogger(__name__)

#: How often a consumer checks whether it is to drain, in seconds.
WATCH_PAUSE = 0.05


#: The terminal was closed; None if the system has no such signal.
HANG_UP: signal.Signals | None = getattr(signal, "SIGHUP", None)


def catch(handler: Callable[[int, FrameType | None], None]) -> list[tuple[int, Any]]:
    """Have the signals that drain call ``handler``; return the previous handlers.

    If SIGHUP is ignored, it stays ignored, as ``nohup`` wants it.
    """
    numbers = [signal.SIGTERM, signal.SIGINT]
    if HANG_UP is not None and signal.getsignal(HANG_UP) is not signal.SIG_IGN:
        numbers.append(HANG_UP)
    return [(number, signal.signal(number, handler)) for number in numbers]


class DrainSignals:
    """Notes SIGTERM, SIGINT and SIGHUP while it is entered.

    The second SIGTERM or SIGINT ends the process immediately. SIGHUP never does: a closed terminal sends it
    twice, and systemd may send it after SIGTERM.

    The handler does nothing else. It may interrupt the main thread anywhere, even while that thread holds the
    lock of the logging module, or of the event that the handler would set.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: list[tuple[int, Any]] = []

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number != HANG_UP and self.received not in {None, HANG_UP}:
            os._exit(128 + number)
        if number != HANG_UP or self.received is None:
            self.received = signal.Signals(number)

    def __enter__(self) -> Self:
        self._before = catch(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)


class Watch:
    """Knows when a consumer is to drain.

    ``until_idle`` is the time in seconds without a message for any worker. A worker that is suspended or
    waits for its provider is not idle, because messages may be waiting. ``parent`` is the process to end
    with.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        signals: DrainSignals,
        *,
        until_idle: float | None = None,
        parent: int | None = None,
    ) -> None:
        self._workers = workers
        self._signals = signals
        self._until_idle = until_idle
        self._parent = parent
        self._quiet_since = time.monotonic()

    def is_over(self) -> bool:
        """Whether the consumer is to drain; logs the reason."""
        if self._signals.received is not None:
            _log.warning("%s received: draining; send it again to end now", self._signals.received.name)
            return True
        if self._parent is not None and os.getppid() != self._parent:
            _log.warning("draining: the parent process %d has ended", self._parent)
            return True
        return self._until_idle is not None and self._quiet() > self._until_idle

    def _quiet(self) -> float:
        now = time.monotonic()
        if not all(worker.idle for worker in self._workers):
            self._quiet_since = now
        return now - self._quiet_since
