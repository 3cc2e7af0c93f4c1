"""Room for a few concurrent turns."""

import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from threading import Condition

#: How many turns run concurrently.
WORKERS = 4

#: After how many seconds a turn, which a service may make endless, no longer blocks others.
SLOW = 30.0


class Slots:
    """Room for :data:`WORKERS` concurrent turns, in the order of the requests.

    A turn that takes longer than :data:`SLOW` seconds loses its slot, and goes on beside the others.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting = deque[object]()
        self._begun: dict[object, float] = {}

    @contextmanager
    def one(self) -> Generator[None]:
        """Wait for a slot, and have it for a turn."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            while self._waiting[0] is not ticket or self._taken() >= WORKERS:
                self._changed.wait(SLOW)
            self._waiting.popleft()
            self._begun[ticket] = time.monotonic()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                del self._begun[ticket]
                self._changed.notify_all()

    def _taken(self) -> int:
        slow = time.monotonic() - SLOW
        return sum(begun > slow for begun in self._begun.values())
