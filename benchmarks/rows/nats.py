"""A consumer on NATS JetStream, one message at a time, beside the loop that people write by hand.

The loop fetches ten, notes each uuid with SET NX, and acknowledges each, with nats-py, and waits for no
answer to that. It does not note that a message is completed, so what a crash leaves behind is lost to it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.result import Result, speeds
from benchmarks.rows import floors
from benchmarks.rows.steady import Turns, Work
from history.message import Message
from tests.fixtures.servers.nats_server import NatsServer
from triggers.providers.nats.connection import driver

#: How many messages a round has, for each message of the other rows.
SHARE = 5

#: How many the consumer and the loop fetch ahead.
PREFETCH = 10


def _loop(work: Work, messages: int) -> None:
    """Fetch, note and acknowledge by hand until so many messages are worked on."""
    asyncio.run(_fetch(work, messages))


async def _fetch(work: Work, messages: int) -> None:
    steady = work.steady
    redis: Any = work.bench.bare()
    client = await driver.connect(work.url)
    subscription = await client.jetstream().pull_subscribe(steady.destination, durable="by-hand")
    while len(steady.times) < messages:
        for came in await subscription.fetch(PREFETCH):
            floors.claim(redis, Message(body=came.data, uuid=came.headers["uuid"], delivery_count=1))
            steady.note()
            await came.ack()
    await client.close()


def measure(bench: Bench) -> Iterable[Result]:
    """Let a consumer and a loop take turns."""
    passes: Mapping[str, Callable[[Work, int], None]] = {
        "consumer": partial(Work.consume, prefetch=PREFETCH),
        "loop": _loop,
    }
    rounds = Turns(bench, "consumer on NATS", bench.fewer(6), bench.effort.messages * SHARE)
    with NatsServer() as server:
        times = rounds.run(partial(Work, bench, f"nats://{server.address}"), passes)
    what = f"consumer on NATS, batch=1, prefetch={PREFETCH}"
    yield speeds(times, "consumer", "loop", what=what, beside=f"fetch({PREFETCH}), SET NX, ack of each")
