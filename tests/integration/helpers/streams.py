"""Receivers of the stream ``orders``, and receiving from them until enough messages are there."""

import time
from datetime import timedelta

from history.bridge import drive
from tests.fixtures.waiting import PATIENCE
from triggers.providers.contract.common import arrivals
from triggers.providers.provider import Arrival, Received
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.receiver import StreamReceiver

SOON = timedelta(seconds=PATIENCE)

#: How long one call waits for messages.
_LOOK = 0.1


def receiver_of(provider: RedisStreams, name: str = "a", subscription: str = "s") -> StreamReceiver:
    return drive(provider.open_receiver("orders", subscription=subscription, name=name))


def received(receiver: StreamReceiver, count: int = 1, within: timedelta = SOON) -> list[Received]:
    """Receive until ``count`` deliveries are there, or the time is over."""
    got: list[Received] = []
    deadline = time.monotonic() + within.total_seconds()
    while len(got) < count and (left := deadline - time.monotonic()) > 0:
        got += drive(receiver.receive(count - len(got), timedelta(seconds=min(left, _LOOK))))
    return got


def receive(receiver: StreamReceiver, count: int = 1, within: timedelta = SOON) -> list[Arrival]:
    """Receive until ``count`` messages are there, or the time is over; each must be readable."""
    return arrivals(received(receiver, count, within))
