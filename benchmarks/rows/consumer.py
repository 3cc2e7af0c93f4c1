"""Compares a consumer on Redis Streams with hand-written loops, one message at a time.

The steady state is timed: from the first message that is worked on to the last. The loops read,
note the uuid with SET NX, and acknowledge; one reads a message at a time, the other ten, as the consumer
does. They do not note that a message is completed, so what a crash leaves behind is lost to them.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.result import SPEED, Budget, Result, speeds
from benchmarks.rows import floors
from benchmarks.rows.steady import Turns, Work
from history.message import Message

#: How many messages a round has, for each message of the other rows.
SHARE = 5

#: How many messages one call reads.
PREFETCH = 10


def _loop(work: Work, messages: int, prefetch: int) -> None:
    """Read, note and acknowledge by hand until so many messages are worked on."""
    client: Any = work.bench.bare()
    stream = work.steady.destination
    client.xgroup_create(stream, "by-hand", id="0", mkstream=True)
    while len(work.steady.times) < messages:
        streams: Any = client.xreadgroup("by-hand", "one", {stream: ">"}, count=prefetch, block=1000)
        entries: list[tuple[bytes, dict[bytes, bytes]]] = streams[0][1] if streams else []
        for entry_id, fields in entries:
            message = Message(body=fields[b"body"], uuid=fields[b"uuid"].decode(), delivery_count=1)
            floors.claim(client, message)
            work.steady.note()
            client.xack(stream, "by-hand", entry_id)


def measure(bench: Bench) -> Iterable[Result]:
    """Let consumers and loops take turns."""
    passes: Mapping[str, Callable[[Work, int], None]] = {
        "consumer": partial(Work.consume, prefetch=PREFETCH),
        "one by one": partial(Work.consume, prefetch=1),
        "loop": partial(_loop, prefetch=1),
        "loop of ten": partial(_loop, prefetch=PREFETCH),
    }
    rounds = Turns(bench, "consumer on Redis Streams", bench.fewer(6), bench.effort.messages * SHARE)
    times = rounds.run(partial(Work, bench, bench.server.url), passes)
    single = "XREADGROUP, SET NX, XACK, one at a time"
    for ours, floor, prefetch, text, budget in (
        ("consumer", "loop", PREFETCH, single, Budget(1.5, SPEED, at_least=True)),
        ("consumer", "loop of ten", PREFETCH, "XREADGROUP COUNT 10, then SET NX, XACK of each", None),
        ("one by one", "loop", 1, single, None),
    ):
        what = f"consumer on Redis Streams, batch=1, prefetch={prefetch}"
        yield speeds(times, ours, floor, what=what, beside=text, budget=budget)
