"""What monitoring reads: such as the triggers of a consumer, and whether its loop makes progress."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from history.store.control import Counts, TriggerState

#: How long the loop of a consumer may make no progress before its process counts as hung, in seconds.
HUNG_AFTER = 60.0


class Watchable(Protocol):
    """The object behind an endpoint. The endpoint's threads read it."""

    @property
    def hung_for(self) -> float | None:
        """For how many seconds it has made no progress, if that is too long; else None."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it does its work."""
        ...

    def readiness(self) -> dict[str, Any]:
        """Return what is ready and what is not, as JSON has it."""
        ...


class WatchedTrigger(Protocol):
    """One trigger of a running consumer. Another thread reads it, while the consumer continues."""

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
        """Why it is suspended; None if it is not."""
        ...

    @property
    def away(self) -> str | None:
        """The last error of its provider; None if it answered."""
        ...

    @property
    def history_away(self) -> str | None:
        """The last error of its history; None if it answered."""
        ...

    @property
    def needs_history(self) -> bool:
        """Whether nothing runs while the history does not answer."""
        ...

    @property
    def not_parked(self) -> int:
        """How often a message could be parked nowhere."""
        ...

    @property
    def parked_locally(self) -> int:
        """How many messages are parked in this machine's file."""
        ...

    @property
    def busy(self) -> int:
        """How many deliveries are being worked on."""
        ...

    @property
    def longest(self) -> float:
        """For how many seconds the oldest of them has been worked on; 0 without any."""
        ...

    def statistics(self) -> Counts:
        """Return the counts since the start."""
        ...


@dataclass(slots=True)
class Watched:
    """A running consumer. ``beat`` is when its loop last made progress, by the monotonic clock."""

    triggers: Sequence[WatchedTrigger]
    beat: float
    draining: bool = False

    @property
    def hung_for(self) -> float | None:
        """For how many seconds the loop has made no progress, if that is too long; else None.

        A draining consumer waits for services, which may take their time.
        """
        if self.draining:
            return None
        silent = monotonic() - self.beat
        return silent if silent > HUNG_AFTER else None

    @property
    def ready(self) -> bool:
        """Whether at least one trigger, if any, receives, and its provider and history answer."""
        receiving = any(_receives(trigger) for trigger in self.triggers)
        return not self.draining and self.hung_for is None and (not self.triggers or receiving)

    def readiness(self) -> dict[str, Any]:
        """Return for each trigger whether it receives, and why not."""
        return {
            "ready": self.ready,
            "draining": self.draining,
            "triggers": {
                trigger.name: {
                    "state": trigger.state.lower(),
                    "reason": trigger.suspended,
                    "provider_away": trigger.away,
                    "history_away": trigger.history_away,
                    "busy": trigger.busy,
                    "oldest_delivery_seconds": round(trigger.longest, 1),
                }
                for trigger in self.triggers
            },
        }


def _receives(trigger: WatchedTrigger) -> bool:
    remembers = trigger.history_away is None or not trigger.needs_history
    return trigger.state is TriggerState.RUNNING and trigger.away is None and remembers
