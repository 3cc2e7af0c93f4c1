"""A consumer on Redis Streams, one message at a time, beside the loops that one would write by hand.

What is timed is the steady state: from the first message that is worked on to the last. The loops read,
note the uuid with SET NX, and acknowledge; one reads a message at a time, the other ten, as the consumer
does. They do not note that a message is completed, so what a crash leaves behind is lost to them.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from benchmarks.bench import Bench
from benchmarks.measuring import WARM_UP, Times
from benchmarks.result import SPEED, Budget, Result
from benchmarks.rows import floors
from history.bridge import drive
from history.message import Message
from triggers import trigger
from triggers.consumer import Consumer
from triggers.providers.redis_streams import RedisStreams

#: How many messages a round has, for each message of the other rows.
SHARE = 5

#: How many are read at once.
PREFETCH = 10

_NUMBERS = count()


@dataclass(slots=True)
class Work:
    """One competitor's stream of messages, and when they were worked on."""

    bench: Bench
    stream: str = field(default_factory=lambda: f"consumed-{next(_NUMBERS)}")
    times: list[float] = field(default_factory=list[float])

    def fill(self, messages: int) -> None:
        """Send so many messages."""
        provider = RedisStreams.from_url(self.bench.server.url)
        drive(provider.send(self.stream, self.bench.fresh(messages)))
        drive(provider.close())

    def note(self) -> None:
        """Note that a message is worked on."""
        self.times.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """What one message took."""
        return (self.times[-1] - self.times[0]) / (len(self.times) - 1)


def _consume(work: Work, messages: int, prefetch: int) -> None:
    """Run a consumer until it has worked on so many messages."""

    @trigger(work.stream, name=work.stream, history=work.bench.server.url, prefetch=prefetch)
    def idle(message: Message) -> None:
        del message
        work.note()
        if len(work.times) == messages:
            consumer.stop()

    consumer = Consumer([idle], work.bench.server.url)
    consumer.run()


def _loop(work: Work, messages: int, prefetch: int) -> None:
    """Read, note and acknowledge by hand until so many messages are worked on."""
    client: Any = work.bench.bare()
    client.xgroup_create(work.stream, "by-hand", id="0", mkstream=True)
    while len(work.times) < messages:
        found: Any = client.xreadgroup("by-hand", "one", {work.stream: ">"}, count=prefetch, block=1000)
        entries: list[tuple[bytes, dict[bytes, bytes]]] = found[0][1] if found else []
        for entry_id, fields in entries:
            message = Message(body=fields[b"body"], uuid=fields[b"uuid"].decode(), delivery_count=1)
            floors.claim(client, message)
            work.note()
            client.xack(work.stream, "by-hand", entry_id)


def measure(bench: Bench) -> Iterable[Result]:
    """Let consumers and loops take turns."""
    messages = bench.effort.messages * SHARE
    passes: Mapping[str, tuple[Callable[[Work, int, int], None], int]] = {
        "consumer": (_consume, PREFETCH),
        "one by one": (_consume, 1),
        "loop": (_loop, 1),
        "loop of ten": (_loop, PREFETCH),
    }
    rounds: dict[str, list[float]] = {name: [] for name in passes}
    rows = bench.fewer(6)
    for number in bench.progress.track(range(rows + WARM_UP), description="consumer on Redis Streams"):
        for name, (run, prefetch) in passes.items():
            work = Work(bench)
            work.fill(messages)
            run(work, messages, prefetch)
            if number >= WARM_UP:
                rounds[name].append(work.seconds)
    times = Times(rounds)
    for ours, beside, text, budget in (
        ("consumer", "loop", "XREADGROUP, SET NX, XACK, one at a time", Budget(1.5, SPEED, at_least=True)),
        ("consumer", "loop of ten", "XREADGROUP COUNT 10, then SET NX, XACK of each", None),
        ("one by one", "loop", "XREADGROUP, SET NX, XACK, one at a time", None),
    ):
        yield Result(
            what=f"consumer on Redis Streams, batch=1, prefetch={passes[ours][1]}",
            beside=text,
            unit="messages/s",
            measured=1 / times.of(ours),
            floor=1 / times.of(beside),
            ratio=1 / times.ratio(ours, beside),
            budget=budget,
        )
