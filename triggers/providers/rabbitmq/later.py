"""Messages for later delivery: each waits in a queue that nobody consumes, and expires there.

RabbitMQ expires messages only at the head of a queue. So all messages in one queue must be due at the same
time: a queue is for a *slot* of time, and each message in it lives until the slot's end. Then the queue's
dead-letter exchange sends it to the destination. The longer a delay, the wider its slots: a message is late
by at most a twentieth of its delay, or 50 ms. A queue deletes itself a while after its slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from math import ceil
from typing import Any

from history.errors import ConfigurationError
from history.message import Message
from triggers.providers.brokers.codec import SHORT
from triggers.providers.rabbitmq.codec import LATER

#: The narrowest slot, in milliseconds, and the least number of slots in a delay.
_NARROWEST, _SLOTS = 50, 20

#: How long a queue stays after its last slot, in milliseconds: dead-lettering needs a moment.
_MARGIN = 60_000

#: The longest time in RabbitMQ, in milliseconds: a number of 32 bits; and the longest delay that stays below.
_MOST = 2**32 - 1
LONGEST = (_MOST - _MARGIN) // 4


@dataclass(frozen=True, slots=True)
class DelaySlot:
    """A time at which messages are due, in ms since 1970, and the width of the slot that ends there."""

    end: int
    width: int

    @classmethod
    def of(cls, due: datetime, now: datetime) -> "DelaySlot":
        """Return the slot of a delivery time.

        Raises:
            ConfigurationError: it is too far ahead.
        """
        at = ceil(due.timestamp() * 1000)
        delay = at - now.timestamp() * 1000
        if delay > LONGEST:
            raise ConfigurationError(
                "delivery_time",
                f"is {delay / 86_400_000:.0f} days ahead, and RabbitMQ delays for {LONGEST // 86_400_000}",
                "send it later",
            )
        width = _NARROWEST
        while 2 * width * _SLOTS <= delay:
            width *= 2
        return cls(ceil(at / width) * width, width)

    def queue(self, destination: str) -> str:
        """Name the queue of the messages to a destination."""
        name = f"{LATER}{self.end}.{self.width}.{destination}"
        if len(name.encode()) <= SHORT:
            return name
        return f"{LATER}{self.end}.{self.width}.{sha256(destination.encode()).hexdigest()}"

    def arguments(self, exchange: str, key: str, *, quorum: bool) -> dict[str, Any]:
        """Return the arguments of its queue, which are the same at each declaration."""
        declared: dict[str, Any] = {
            "x-queue-type": "quorum" if quorum else "classic",
            "x-dead-letter-exchange": exchange,
            "x-dead-letter-routing-key": key,
            # Counts from the last declaration, which comes before each message: no delay is longer.
            "x-expires": min(_MOST, 2 * self.width * _SLOTS + self.width + _MARGIN),
        }
        if quorum:
            declared |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
        return declared

    def time_to_live(self, now: datetime) -> int:
        """Return how long a message waits, in ms."""
        return max(1, ceil(self.end - now.timestamp() * 1000))


def slots_of(messages: Sequence[Message], now: datetime) -> dict[DelaySlot, list[Message]]:
    """Return messages by their slots, the earliest first; each slot keeps the given order."""
    slots: dict[DelaySlot, list[Message]] = {}
    for message in messages:
        slots.setdefault(DelaySlot.of(message.delivery_time or now, now), []).append(message)
    return dict(sorted(slots.items(), key=lambda slot: slot[0].end))
