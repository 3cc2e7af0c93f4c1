"""The provider of a run: copies of messages that wait, by the run's clock, until they are acknowledged."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from history.message import UNDEFINED_COUNT, Message
from triggers.testing.simulator.script import Counts


@dataclass(slots=True, eq=False)
class Copy:
    """One copy of a message at the provider: how often it was delivered, and when it is due."""

    index: int
    message: Message
    due: datetime
    delivered: int = 0


@dataclass(slots=True)
class Queue:
    """The messages that wait for a worker; a message that a worker holds is not in it."""

    counts: Counts
    sent: datetime
    real: datetime
    waiting: list[Copy] = field(default_factory=list[Copy])
    deliveries: dict[int, int] = field(default_factory=dict[int, int])

    def put(self, copy: Copy, *, first: bool = False) -> None:
        """Let a copy wait, behind or before all others."""
        self.waiting.insert(0 if first else len(self.waiting), copy)

    def next_due(self) -> datetime | None:
        """Return when the next copy is due; None if none waits."""
        return min((copy.due for copy in self.waiting), default=None)

    def take(self, now: datetime, limit: int) -> Sequence[Copy]:
        """Hand out copies that are due, and count them."""
        taken = [copy for copy in self.waiting if copy.due <= now][:limit]
        self.waiting = [copy for copy in self.waiting if copy not in taken]
        for copy in taken:
            copy.delivered += 1
            self.deliveries[copy.index] = self.deliveries.get(copy.index, 0) + 1
        return taken

    def another(self, copy: Copy, now: datetime) -> Copy:
        """Return another copy of a message that is being worked on, as a redelivery."""
        self.deliveries[copy.index] = self.deliveries.get(copy.index, 0) + 1
        return Copy(copy.index, copy.message, now, copy.delivered + 1)

    def arrival(self, copy: Copy, now: datetime) -> Message:
        """Return the message as it is delivered this time."""
        count = copy.delivered if self.counts == "exact" else UNDEFINED_COUNT
        changes: dict[str, object] = {"delivery_count": count, "redelivered": copy.delivered > 1}
        if copy.message.timestamp is None:
            # The machine's clock decides the age of a message, and the run's may be far ahead of it.
            changes["timestamp"] = self.real - (now - self.sent)
        return copy.message.copied().model_copy(update=changes)


def named(messages: Sequence[Message], destination: str) -> Sequence[Message]:
    """Return messages with the fields that a provider adds: identities, destination."""
    return [
        message.copied().model_copy(
            update={
                "message_id": (name := message.message_id or f"ID:{destination}:{index + 1}"),
                "uuid": message.uuid or name,
                "destination": message.destination or destination,
            }
        )
        for index, message in enumerate(messages)
    ]


#: How much later a late message is delivered again.
MUCH_LATER = timedelta(hours=12)
