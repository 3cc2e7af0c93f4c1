"""One log line for each cause and interval, however many workers report the same."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: How long the same cause is not logged again, in seconds.
INTERVAL = 10.0

#: How many causes are remembered; the oldest is forgotten first.
MOST_CAUSES = 100


@dataclass(slots=True)
class _Said:
    at: float
    unsaid: int = 0


@dataclass(slots=True)
class Complaints:
    """Warns immediately of a new cause, and once in an interval while it goes on; safe between threads."""

    clock: Callable[[], float] = time.monotonic
    _said: dict[str, _Said] = field(default_factory=dict[str, _Said])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def warn(self, log: logging.Logger, cause: str, text: str, extra: Mapping[str, object]) -> None:
        """Log a warning, unless the same cause was logged just now; then it is counted."""
        unsaid = self._note(cause)
        if unsaid is None:
            return
        more = f" (and {unsaid} times more in between)" if unsaid else ""
        log.warning("%s%s", text, more, extra=extra)

    def _note(self, cause: str) -> int | None:
        """Return how often a cause was left out since its last line, if it is to be logged now."""
        with self._lock:
            now, said = self.clock(), self._said.get(cause)
            if said is not None and now < said.at + INTERVAL:
                said.unsaid += 1
                return None
            self._said.pop(cause, None)
            self._said[cause] = _Said(now)
            if len(self._said) > MOST_CAUSES:
                del self._said[next(iter(self._said))]
            return said.unsaid if said is not None else 0
