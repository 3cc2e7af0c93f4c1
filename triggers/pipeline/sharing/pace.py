"""How many prefetched messages of an atomic trigger share one transaction.

A transaction costs as much as a message. So the messages of one fetch share a transaction, each behind its
own savepoint: a failure undoes only its own message. But a transaction keeps its rows locked until it ends,
so another session that waits for a row waits for all messages. So the worker begins with one message per
transaction, and doubles the number while transactions stay quick.

If messages of a shared transaction had to be repeated separately, they run one by one for a while. Several
messages lock rows in an order that nobody has planned. Two such transactions may wait for each other, a
deadlock that PostgreSQL ends after a second.
"""

from dataclasses import dataclass
from time import monotonic

from triggers.service.settings import Settings

#: The longest time that the messages of one transaction should take together, in seconds.
LONGEST = 0.05

#: How long messages run one by one after the first failure, and after many, in seconds.
FIRST_REST, LONGEST_REST = 10.0, 600.0


@dataclass(slots=True)
class Pace:
    """How many messages one worker gives to its next transaction; at most ``limit``."""

    limit: int
    size: int = 1
    _rest: float = 0.0
    _rests_until: float = 0.0

    def note(self, count: int, seconds: float) -> None:
        """Note how long a transaction of so many messages took."""
        if seconds > LONGEST:
            self.size = max(1, int(min(self.size, count) * LONGEST / seconds))
        elif count >= self.size and monotonic() >= self._rests_until:
            self.size = min(self.limit, self.size * 2)

    def slow_down(self) -> None:
        """Run one by one for a while, and twice as long the next time: a common transaction has failed."""
        self.size = 1
        self._rest = min(max(2 * self._rest, FIRST_REST), LONGEST_REST)
        self._rests_until = monotonic() + self._rest


def pace_of(settings: Settings) -> Pace | None:
    """Return the pace of one worker of an atomic trigger; None if each message must end before the next."""
    if (
        settings.prefetch == 1
        or settings.batch > 1
        or settings.ordered
        or settings.acknowledge_mode != "client"
        or settings.policy.suspend_on_error
    ):
        return None
    return Pace(settings.prefetch)
