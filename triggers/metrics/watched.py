"""What monitoring asks about: such as the triggers of a consumer, and whether its loop goes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from history.store.control import Counts, TriggerState

#: How long the loop of a consumer may stand still before its process counts as hung, in seconds.
HUNG_AFTER = 60.0


class Watchable(Protocol):
    """What an endpoint answers for. It is read from the endpoint's threads."""

    @property
    def hung_for(self) -> float | None:
        """For how many seconds it has stood still, where that is too long; else None."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it does its work."""
        ...

    def readiness(self) -> dict[str, Any]:
        """Say what is ready and what is not, as JSON has it."""
        ...


class WatchedTrigger(Protocol):
    """One trigger of a running consumer. It is read from another thread, while the consumer goes on."""

    @property
    def name(self) -> str:
        """The name of the trigger."""
        ...

    @property
    def state(self) -> TriggerState:
        """Whether it receives."""
        ...

    @property
    def suspended(self) -> str | None:
        """Why it is suspended; None when it is not."""
        ...

    @property
    def away(self) -> str | None:
        """What its provider failed with when it was asked last; None when it answered."""
        ...

    @property
    def history_away(self) -> str | None:
        """What its history failed with when it was asked last; None when it answered."""
        ...

    @property
    def needs_history(self) -> bool:
        """Whether nothing runs while the history is away."""
        ...

    @property
    def busy(self) -> int:
        """How many deliveries are being worked on."""
        ...

    @property
    def longest(self) -> float:
        """For how many seconds the oldest of them has been worked on; 0 where there is none."""
        ...

    def statistics(self) -> Counts:
        """Return what was counted since the start."""
        ...


@dataclass(slots=True)
class Watched:
    """A running consumer. ``beat`` is when its loop last went on, by the monotonic clock."""

    triggers: Sequence[WatchedTrigger]
    beat: float
    draining: bool = False

    @property
    def hung_for(self) -> float | None:
        """For how many seconds the loop has stood still, where that is too long; else None.

        One that drains waits for services, which may take their time.
        """
        if self.draining:
            return None
        silent = monotonic() - self.beat
        return silent if silent > HUNG_AFTER else None

    @property
    def ready(self) -> bool:
        """Whether at least one trigger receives, and its provider and history answer; or there is none."""
        receiving = any(_receives(one) for one in self.triggers)
        return not self.draining and self.hung_for is None and (not self.triggers or receiving)

    def readiness(self) -> dict[str, Any]:
        """Say of each trigger whether it receives, and why not."""
        return {
            "ready": self.ready,
            "draining": self.draining,
            "triggers": {
                one.name: {
                    "state": one.state.lower(),
                    "reason": one.suspended,
                    "provider_away": one.away,
                    "history_away": one.history_away,
                }
                for one in self.triggers
            },
        }


def _receives(one: WatchedTrigger) -> bool:
    remembers = one.history_away is None or not one.needs_history
    return one.state is TriggerState.RUNNING and one.away is None and remembers
