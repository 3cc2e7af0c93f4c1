"""How many prefetched messages of an atomic trigger share one transaction.

A transaction of one message costs as much as its message. So those that one receive brought share one, each
behind a savepoint of its own: what one does wrong is undone for it alone. A transaction keeps its rows locked
until it ends, though, and whoever waits for one of them waits for all of its messages. So it begins with one
message, and takes twice as many as long as that is done quickly.

Where messages that shared one had to be done again, each by itself, they go one by one for a while: several
messages lock rows in an order that nobody has thought of, and two such transactions may wait for each other,
which PostgreSQL ends after a second.
"""

from dataclasses import dataclass
from time import monotonic

from triggers.service.settings import Settings

#: The longest that the messages of one transaction should take together, in seconds.
LONGEST = 0.05

#: For how long messages go one by one after the first failure, and after many, in seconds.
FIRST_REST, LONGEST_REST = 10.0, 600.0


@dataclass(slots=True)
class Pace:
    """How many messages one worker gives to its next transaction; at most ``limit``."""

    limit: int
    size: int = 1
    _rest: float = 0.0
    _rests_until: float = 0.0

    def note(self, count: int, seconds: float) -> None:
        """Know how long a transaction of so many messages took."""
        if seconds > LONGEST:
            self.size = max(1, int(min(self.size, count) * LONGEST / seconds))
        elif count >= self.size and monotonic() >= self._rests_until:
            self.size = min(self.limit, self.size * 2)

    def slow_down(self) -> None:
        """Go one by one for a while, and twice as long the next time: a common transaction has failed."""
        self.size = 1
        self._rest = min(max(2 * self._rest, FIRST_REST), LONGEST_REST)
        self._rests_until = monotonic() + self._rest


def pace_of(settings: Settings) -> Pace | None:
    """Return the pace of one worker of an atomic trigger; None where each message is to be over first."""
    if (
        settings.prefetch == 1
        or settings.batch > 1
        or settings.ordered
        or settings.acknowledge_mode != "client"
        or settings.policy.suspend_on_error
    ):
        return None
    return Pace(settings.prefetch)
