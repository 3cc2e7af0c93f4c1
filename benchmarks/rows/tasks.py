"""A thousand services at a time in one process, beside the tasks that one would start by hand.

Each service waits for 50 ms, as for a database or a payment service. By hand a loop reads as many messages as
tasks are free, and each task notes its uuid with SET NX, waits, and acknowledges. What is timed is the steady
state: from the first end of a service to the last.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import redis.asyncio

from benchmarks.bench import TIME_TO_LIVE, Bench
from benchmarks.measuring import WARM_UP, Times
from benchmarks.result import SPEED, Budget, Result
from benchmarks.rows.consumer import Work
from triggers import AsyncConsumer, trigger

#: How many services run at once, and how long each of them waits, in seconds.
CONCURRENCY, WAIT = 1000, 0.05

#: How many connections the tasks by hand share.
CONNECTIONS = 50

#: How many messages a round has, for each message of the other rows.
SHARE = 50


async def _consume(work: Work, messages: int) -> None:
    """Run a consumer until it has worked on so many messages."""

    @trigger(work.stream, name=work.stream, history=work.bench.server.url, concurrency=CONCURRENCY)
    async def waiting(body: bytes) -> None:
        del body
        await asyncio.sleep(WAIT)
        work.note()
        if len(work.times) == messages:
            consumer.stop()

    consumer = AsyncConsumer([waiting], work.bench.server.url)
    await consumer.run()


async def _loop(work: Work, messages: int) -> None:
    """Read as many as are free, and note, wait and acknowledge in a task each."""
    # The usual pool refuses the hundred and first; this one lets them wait.
    pool: Any = redis.asyncio.BlockingConnectionPool(
        port=work.bench.server.port, max_connections=CONNECTIONS, timeout=None
    )
    client: Any = redis.asyncio.Redis(connection_pool=pool)
    await client.xgroup_create(work.stream, "by-hand", id="0", mkstream=True)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(entry_id: bytes, uuid: str) -> None:
        await client.set(f"bare:{uuid}", b"started", nx=True, ex=TIME_TO_LIVE)
        await asyncio.sleep(WAIT)
        work.note()
        await client.xack(work.stream, "by-hand", entry_id)

    while len(work.times) < messages:
        if len(tasks) == CONCURRENCY:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            continue
        free = CONCURRENCY - len(tasks)
        found: Any = await client.xreadgroup("by-hand", "one", {work.stream: ">"}, count=free, block=50)
        for entry_id, fields in found[0][1] if found else ():
            task = asyncio.create_task(serve(entry_id, fields[b"uuid"].decode()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    await client.aclose()
    await pool.aclose()


def measure(bench: Bench) -> Iterable[Result]:
    """Let the consumer and the loop take turns."""
    messages = bench.effort.messages * SHARE
    passes: Mapping[str, Callable[[Work, int], Coroutine[Any, Any, None]]] = {
        "consumer": _consume,
        "loop": _loop,
    }
    rounds: dict[str, list[float]] = {name: [] for name in passes}
    rows = bench.fewer(15)
    for number in bench.progress.track(range(rows + WARM_UP), description="a thousand tasks"):
        for name, run in passes.items():
            work = Work(bench)
            work.fill(messages)
            asyncio.run(run(work, messages))
            if number >= WARM_UP:
                rounds[name].append(work.seconds)
    times = Times(rounds)
    yield Result(
        what=f"consumer with {CONCURRENCY:,} tasks of {WAIT * 1000:.0f} ms on Redis Streams",
        beside="tasks by hand: XREADGROUP of what is free, then SET NX and XACK of each",
        unit="messages/s",
        measured=1 / times.of("consumer"),
        floor=1 / times.of("loop"),
        ratio=1 / times.ratio("consumer", "loop"),
        budget=Budget(1, SPEED, at_least=True),
    )
