"""How many new keys a caller may use in an hour."""

import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

#: How long a caller should wait if its requests in progress may use up the limit, in seconds.
SOON = 1.0

#: The length of a window, in seconds. A caller's count starts again with each window.
WINDOW = 3600.0


class Quota:
    """Counts the new keys of each caller in this process; with ``most=None`` nothing is counted.

    Each key that is new leaves an entry, perhaps an answer, and sometimes a parked request. Without a limit,
    one caller could fill the history with them.
    """

    def __init__(self, most: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._until = clock() + WINDOW
        self._used: Counter[str] = Counter()
        self._running: Counter[str] = Counter()

    def wait(self, caller: str) -> float:
        """Return after how many seconds the caller may use a new key; 0 if that is now."""
        if self._most is None:
            return 0.0
        now = self._clock()
        if now >= self._until:
            self._until = now + WINDOW
            self._used.clear()
        if self._used[caller] >= self._most:
            return self._until - now
        return SOON if self._used[caller] + self._running[caller] >= self._most else 0.0

    @contextmanager
    def running(self, caller: str) -> Generator[None]:
        """Reserve a new key for a request in progress, which may be one of many at the same time."""
        self._running[caller] += 1
        try:
            yield
        finally:
            self._running[caller] -= 1
            if not self._running[caller]:
                del self._running[caller]

    def count(self, caller: str) -> None:
        """Count a new key of the caller."""
        if self._most is not None:
            self._used[caller] += 1
