"""The four curves. Each shows the speed, in messages per second, over a number that grows."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import median
from typing import Any
from uuid import uuid4

from benchmarks.filling import numbered, remember
from benchmarks.rows.steady import Calls
from history.bridge import drive
from history.message import Message
from history.redis import RedisHistory
from history.store import CLAIM_BATCH
from triggers import Consumer, Trigger, open_provider, trigger

#: The number that grows.
ENTRIES = (1_000_000, 2_000_000, 5_000_000, 10_000_000)
BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
PROCESSES = (1, 2, 3, 4)
BODIES = (100, 1_000, 10_000, 100_000)

#: The number of measurements of each point, and their duration in seconds. A point is their median.
TIMES, SECONDS = 5, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Speeds in messages per second, by the growing number."""

    title: str
    grows: str
    points: Sequence[tuple[int, float]]


def entries(url: str, sizes: Sequence[int] = ENTRIES) -> Curve:
    """Claim and complete in batches of 200, with more and more remembered entries."""
    history, numbers = RedisHistory.from_url(url), count()
    points: list[tuple[int, float]] = []
    try:
        for size in sizes:
            while next(numbers) < size:
                _remember(history, numbers)
            points.append((size, _speed(lambda: _remember(history, numbers))))
    finally:
        drive(history.close())
    return Curve(title="claimed and completed in batches of 200", grows="entries remembered", points=points)


def _remember(history: RedisHistory, numbers: Iterator[int]) -> int:
    remember(history, "curve", numbered(numbers, CLAIM_BATCH))
    return CLAIM_BATCH


def batches(url: str, sizes: Sequence[int] = BATCHES) -> Curve:
    """Let ``handle_batch`` work on longer and longer lists of messages."""
    idle = _idle(url)
    points = [(size, _speed(partial(_handle, idle, size))) for size in sizes]
    return Curve(title="handle_batch(), service does nothing", grows="messages in a batch", points=points)


def processes(url: str, sizes: Sequence[int] = PROCESSES, batch: int = 1) -> Curve:
    """Let more and more processes work in parallel on one trigger and one Redis."""
    points = [(size, _together(url, size, batch)) for size in sizes]
    return Curve(title=f"processes, batches of {batch}", grows="processes", points=points)


def _together(url: str, size: int, batch: int) -> float:
    context = multiprocessing.get_context("spawn")
    begin, speeds = context.Barrier(size), context.Queue()
    children = [
        context.Process(target=_work_alone, args=(url, batch, begin, speeds), daemon=True)
        for _ in range(size)
    ]
    for child in children:
        child.start()
    total = sum(speeds.get(timeout=300) for _ in children)
    for child in children:
        child.join()
    return float(total)


def _work_alone(url: str, batch: int, begin: Any, speeds: Any) -> None:
    idle = _idle(url)
    idle.handle_batch(_fresh(batch))
    begin.wait()
    speeds.put(_speed(partial(_handle, idle, batch)))


def _handle(idle: Trigger[[Message], None], amount: int) -> int:
    return len(idle.handle_batch(_fresh(amount)))


def bodies(url: str, sizes: Sequence[int] = BODIES, batch: int = 100) -> Curve:
    """Let a consumer empty a Redis Stream of larger and larger bodies."""
    points = [(size, _consumed(url, size, batch)) for size in sizes]
    return Curve(title=f"a consumer on Redis Streams, batch={batch}", grows="bytes of a body", points=points)


def _consumed(url: str, size: int, batch: int) -> float:
    amount, stream = max(1000, min(20_000, 20_000_000 // size)), f"bodies-{size}"
    _send(url, stream, size, amount)
    calls = Calls(amount)

    @trigger(stream, name=f"curve.{stream}", history=url, batch=batch, prefetch=2 * batch)
    def idle(messages: list[Message]) -> None:
        calls.note(len(messages))

    return 1 / calls.seconds_in(Consumer([idle], url))


def _send(url: str, stream: str, size: int, amount: int) -> None:
    provider = open_provider(url)
    try:
        for first in range(0, amount, 500):
            last = min(first + 500, amount)
            some = [Message(body=b"x" * size, uuid=f"{size}-{number}") for number in range(first, last)]
            drive(provider.send(stream, some))
    finally:
        drive(provider.close())


def _idle(url: str) -> Trigger[[Message], None]:
    @trigger("queue", name="curve.idle", history=url)
    def idle(message: Message) -> None:
        del message

    return idle


def _fresh(size: int) -> list[Message]:
    prefix = uuid4()
    return [Message(body=b"{}", uuid=f"{prefix}-{number}", delivery_count=1) for number in range(size)]


def _speed(work: Callable[[], int]) -> float:
    """Return messages per second: the median of some measurements."""
    work()
    return median(_speed_once(work) for _ in range(TIMES))


def _speed_once(work: Callable[[], int]) -> float:
    begun, done = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        done += work()
    return done / (time.perf_counter() - begun)
