"""Redis Streams in random runs: whatever the consumers do, each delivery is counted and nothing is lost."""

from collections import Counter
from datetime import timedelta
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as some

from history.bridge import drive
from triggers.providers.contract.common import NO_WAIT, arrivals, numbered
from triggers.providers.provider import Arrival
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.receiver import StreamReceiver
from triggers.testing.redis_server import RedisServer

#: So short that a consumer may also be robbed while it works, as a paused process is.
QUICK = "?claim_idle=0.02&reclaim_interval=0.001"

STEPS = ["send", "receive", "acknowledge", "recover", "delay", "keep alive", "close", "die"]


class Run:
    """Three consumers at random, and the books kept beside them."""

    def __init__(self, provider: RedisStreams) -> None:
        self.provider = provider
        self.destination = f"run-{uuid4().hex[:8]}"
        self.sent = 0
        self.started = 0
        self.handed: Counter[object] = Counter()
        self.acknowledged: set[object] = set()
        self.held: dict[int, list[Arrival]] = {}
        self.receivers: dict[int, StreamReceiver] = {}

    def receiver(self, who: int) -> StreamReceiver:
        if who not in self.receivers:
            self.started += 1
            name = f"{who}-{self.started}"
            self.receivers[who] = drive(
                self.provider.open_receiver(self.destination, subscription="s", name=name)
            )
            self.held[who] = []
        return self.receivers[who]

    def do(self, who: int, step: str, number: int) -> None:
        receiver, some_held = self.receiver(who), self.held[who][:number]
        match step:
            case "send":
                drive(self.provider.send(self.destination, numbered(number)))
                self.sent += number
            case "receive":
                self.receive(who, number)
            case "keep alive":
                drive(receiver.keep_alive())
            case "acknowledge":
                drive(receiver.acknowledge(some_held))
                self.acknowledged.update(one.handle for one in some_held)
                del self.held[who][:number]
            case "close" | "die":
                if step == "close":
                    drive(receiver.close())
                del self.receivers[who]
            case _:
                delay = timedelta(milliseconds=5 * number if step == "delay" else 0)
                drive(receiver.recover(some_held, delay))
                del self.held[who][:number]

    def receive(self, who: int, number: int, wait: timedelta = NO_WAIT) -> list[Arrival]:
        got = arrivals(drive(self.receiver(who).receive(number, wait)))
        for one in got:
            self.handed[one.handle] += 1
            assert one.message.delivery_count == self.handed[one.handle]
            assert one.handle not in self.acknowledged
        self.held[who] += got
        return got

    def drain(self) -> None:
        """Let one consumer that lives take and acknowledge everything that the others left."""
        while len(self.acknowledged) < self.sent:
            assert self.receive(9, 100, timedelta(seconds=10)), "something was lost"
            self.do(9, "acknowledge", len(self.held[9]))
        for receiver in self.receivers.values():
            drive(receiver.close())


steps = some.tuples(some.integers(0, 2), some.sampled_from(STEPS), some.integers(1, 3))


@settings(max_examples=60, deadline=None)
@given(run=some.lists(steps, max_size=40))
def test_every_delivery_is_counted_and_nothing_is_lost(
    redis_server: RedisServer, run: list[tuple[int, str, int]]
) -> None:
    provider = RedisStreams.from_url(redis_server.url + QUICK)
    books = Run(provider)
    for who, step, number in run:
        books.do(who, step, number)

    books.drain()

    assert len(books.acknowledged) == books.sent
    drive(provider.close())
