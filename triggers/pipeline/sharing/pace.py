"""How many prefetched messages of an atomic trigger share one transaction.

A transaction of one message costs as much as its message. So those that one receive brought share one, each
behind a savepoint of its own: what one does wrong is undone for it alone. A transaction keeps its rows locked
until it ends, though, and whoever waits for one of them waits for all of its messages. So it begins with one
message, takes twice as many as long as that is done quickly, and one again where another transaction was in
the way.
"""

from dataclasses import dataclass

from triggers.service.settings import Settings

#: The longest that the messages of one transaction should take together, in seconds.
LONGEST = 0.05


@dataclass(slots=True)
class Pace:
    """How many messages one worker gives to its next transaction; at most ``limit``."""

    limit: int
    size: int = 1

    def note(self, count: int, seconds: float) -> None:
        """Know how long a transaction of so many messages took."""
        if seconds > LONGEST:
            self.size = max(1, int(min(self.size, count) * LONGEST / seconds))
        elif count >= self.size:
            self.size = min(self.limit, self.size * 2)

    def begin_anew(self) -> None:
        """Go one by one: messages that shared a transaction had to be done again, each by itself."""
        self.size = 1


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
