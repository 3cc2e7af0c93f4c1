"""Messages that are to be delivered later: each waits in a queue that nobody consumes, and expires there.

RabbitMQ expires messages at the head of a queue only. So what waits in one queue is due at one time: a queue
is for a *slot* of time, and each message in it lives until the slot's end. Then the queue's dead-letter
exchange is the destination. The longer a delay, the wider its slots: a message comes by a twentieth of its
delay later at most, or by 50 ms. A queue goes away by itself a while after its slot.
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

#: The narrowest slot, in milliseconds, and in how many slots a delay is measured at least.
_NARROWEST, _SLOTS = 50, 20

#: For how long a queue stays after its last slot, in milliseconds: dead-lettering needs a moment.
_MARGIN = 60_000

#: How long RabbitMQ counts, in milliseconds: a number of 32 bits; and how long a delay may be, to stay below.
_MOST = 2**32 - 1
LONGEST = (_MOST - _MARGIN) // 4


@dataclass(frozen=True, slots=True)
class Slot:
    """A time at which messages are due, in ms since 1970, and how wide the slot is that ends there."""

    end: int
    width: int

    @classmethod
    def of(cls, due: datetime, now: datetime) -> "Slot":
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
        """Return the arguments of its queue, which are the same whenever it is declared."""
        found: dict[str, Any] = {
            "x-queue-type": "quorum" if quorum else "classic",
            "x-dead-letter-exchange": exchange,
            "x-dead-letter-routing-key": key,
            # From the last declaration on, which comes before each message: no delay of it is longer.
            "x-expires": min(_MOST, 2 * self.width * _SLOTS + self.width + _MARGIN),
        }
        if quorum:
            found |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
        return found

    def time_to_live(self, now: datetime) -> int:
        """Return for how long a message is to wait, in ms."""
        return max(1, ceil(self.end - now.timestamp() * 1000))


def slots_of(messages: Sequence[Message], now: datetime) -> dict[Slot, list[Message]]:
    """Return messages by their slots, the earliest first, each in the order in which they are given."""
    found: dict[Slot, list[Message]] = {}
    for message in messages:
        found.setdefault(Slot.of(message.delivery_time or now, now), []).append(message)
    return dict(sorted(found.items(), key=lambda one: one[0].end))
