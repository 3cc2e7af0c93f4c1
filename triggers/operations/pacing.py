"""At most so many runs in a second."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from history.errors import ConfigurationError

#: The fastest and the slowest pace, in messages a second.
FASTEST, SLOWEST = 10_000.0, 0.001

#: How long a wait for a turn may not notice that it is stopped, in seconds.
NOTICED = 0.2

#: How much time lost by slow runs may be caught up, in seconds.
CAUGHT_UP = 1.0


@dataclass(slots=True)
class RunPace:
    """Gives out turns, ``rate`` in a second; safe between threads.

    Between the first turn and turn ``n`` at least ``(n - 1) / rate`` seconds pass.

    Raises:
        ConfigurationError: the rate is too slow or too fast.
    """

    rate: float
    clock: Callable[[], float] = time.monotonic
    _due: float | None = None
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Refuse a rate that cannot be kept."""
        if not SLOWEST <= self.rate <= FASTEST:
            problem = f"{self.rate:g} messages a second is not between {SLOWEST:g} and {FASTEST:,.0f}"
            raise ConfigurationError("rate", problem, "give another rate, or none")

    def take(self) -> float:
        """Take a turn, and return 0; or return how many seconds the next turn is away."""
        with self._lock:
            now = self.clock()
            due = now if self._due is None else max(self._due, now - CAUGHT_UP)
            if due > now:
                return due - now
            self._due = due + 1 / self.rate
            return 0.0

    def wait(self, is_stopped: Callable[[], bool]) -> bool:
        """Wait for a turn and take it; return False as soon as it is stopped."""
        while not is_stopped():
            rest = self.take()
            if rest <= 0:
                return True
            time.sleep(min(rest, NOTICED))
        return False


def pace_of(text: str | None) -> RunPace | None:
    """Return the pace that a person writes, such as "50" or "50/s"; None without a text.

    Raises:
        ConfigurationError: it is not a number, or is too slow or too fast.
    """
    number = (text or "").strip().removesuffix("/s").strip()
    if not number:
        return None
    try:
        rate = float(number)
    except ValueError as error:
        raise ConfigurationError("rate", f"{number!r:.30} is not a number", "write 50") from error
    return RunPace(rate)
