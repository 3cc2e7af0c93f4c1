"""When a consumer drains: at a signal, without its parent, or when no messages come any more."""

import logging
import os
import signal
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from triggers.consumer.worker import Worker

_log = logging.getLogger(__name__)

#: How often a consumer looks whether it is to drain, in seconds.
WATCH_PAUSE = 0.05


class DrainSignals:
    """Notes SIGTERM and SIGINT while it is entered; the second one ends the process at once.

    The handler does no more than that: it may interrupt the main thread anywhere, also where that holds the
    lock of the logging module or of the very event that it would want to set.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: list[tuple[int, Any]] = []

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = signal.Signals(number)

    def __enter__(self) -> Self:
        numbers = (signal.SIGTERM, signal.SIGINT)
        self._before = [(number, signal.signal(number, self._note)) for number in numbers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)


class Watch:
    """Knows when a consumer is to drain.

    ``until_idle`` is for how many seconds no worker may have had a message; a worker that is suspended or
    waits for its provider is not idle, for it cannot know. ``parent`` is the process to end with.
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
        """Whether the consumer is to drain, and says why."""
        if self._signals.received is not None:
            _log.warning("%s received: draining; send it again to end at once", self._signals.received.name)
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
