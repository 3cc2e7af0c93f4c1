"""Compares a thousand parallel services in one process with tasks that are started by hand.

Each service waits for 50 ms, as for a database or a payment service. By hand, a loop reads as many messages
as tasks are free, and each task notes its uuid with SET NX, waits, and acknowledges. The steady state is
timed: from the first end of a service to the last.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import redis.asyncio

from benchmarks.bench import TIME_TO_LIVE, Bench
from benchmarks.result import SPEED, Budget, Result, speeds
from benchmarks.rows.steady import Turns, Work
from triggers import AsyncConsumer, trigger

#: The number of services that run at the same time, and the seconds that each of them waits.
CONCURRENCY, WAIT = 1000, 0.05

#: The hand-written tasks share so many connections.
CONNECTIONS = 50

#: How many messages a round has, for each message of the other rows.
SHARE = 50


async def _consuming(work: Work, messages: int) -> None:
    """Run a consumer until it has worked on so many messages."""
    stream = work.steady.destination

    @trigger(stream, name=stream, history=work.bench.server.url, concurrency=CONCURRENCY)
    async def waiting(body: bytes) -> None:
        del body
        await asyncio.sleep(WAIT)
        work.steady.note()
        if len(work.steady.times) == messages:
            consumer.stop()

    consumer = AsyncConsumer([waiting], work.bench.server.url)
    await consumer.run()


async def _looping(work: Work, messages: int) -> None:
    """Read as many messages as tasks are free. Each task notes, waits and acknowledges."""
    # The default pool refuses the 101st caller, but this pool lets callers wait.
    pool: Any = redis.asyncio.BlockingConnectionPool(
        port=work.bench.server.port, max_connections=CONNECTIONS, timeout=None
    )
    client: Any = redis.asyncio.Redis(connection_pool=pool)
    stream = work.steady.destination
    await client.xgroup_create(stream, "by-hand", id="0", mkstream=True)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(entry_id: bytes, uuid: str) -> None:
        await client.set(f"bare:{uuid}", b"started", nx=True, ex=TIME_TO_LIVE)
        await asyncio.sleep(WAIT)
        work.steady.note()
        await client.xack(stream, "by-hand", entry_id)

    while len(work.steady.times) < messages:
        if len(tasks) == CONCURRENCY:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            continue
        free = CONCURRENCY - len(tasks)
        streams: Any = await client.xreadgroup("by-hand", "one", {stream: ">"}, count=free, block=50)
        for entry_id, fields in streams[0][1] if streams else ():
            task = asyncio.create_task(serve(entry_id, fields[b"uuid"].decode()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    await client.aclose()
    await pool.aclose()


def _consume(work: Work, messages: int) -> None:
    asyncio.run(_consuming(work, messages))


def _loop(work: Work, messages: int) -> None:
    asyncio.run(_looping(work, messages))


def measure(bench: Bench) -> Iterable[Result]:
    """Let the consumer and the loop take turns."""
    passes: Mapping[str, Callable[[Work, int], None]] = {"consumer": _consume, "loop": _loop}
    rounds = Turns(bench, "a thousand tasks", bench.fewer(15), bench.effort.messages * SHARE)
    yield speeds(
        rounds.run(partial(Work, bench, bench.server.url), passes),
        "consumer",
        "loop",
        what=f"consumer with {CONCURRENCY:,} tasks of {WAIT * 1000:.0f} ms on Redis Streams",
        beside="tasks by hand: XREADGROUP of what is free, then SET NX and XACK of each",
        budget=Budget(1, SPEED, at_least=True),
    )
