"""The cost of one message on a server, measured on this machine: processor time, and stored bytes."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, cast

import redis

from benchmarks.costs import redis_memory, redis_seconds
from benchmarks.filling import numbered, remember
from benchmarks.servers import private_postgres, private_redis
from history.bridge import drive
from history.message import Message
from history.redis import RedisHistory
from history.store import CLAIM_BATCH
from tests.fixtures.aging import age, in_the_middle_of_its_slice
from triggers import trigger
from triggers.testing.postgres_server import PostgresServer
from triggers.testing.redis_server import RedisServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of one core, and bytes, for each message that is new.

    ``call`` is the cost of a call for Redis, without the message; ``batched`` and ``single`` are a claim and
    a completion, in batches of 200 and one at a time. ``postgres_*`` are those of the server and its client
    together, which take turns. ``entry`` and ``postgres_entry`` are the bytes of a completed entry.
    ``packed`` are those in Redis after its slice of time has ended.
    """

    batched: float
    single: float
    entry: float
    packed: float
    postgres_batched: float
    postgres_single: float
    postgres_entry: float

    @property
    def call(self) -> float:
        """Return the cost of a call without its message, in seconds."""
        return max(0.0, self.single - self.batched)


def measure(*, entries: int = 200_000, singles: int = 5_000) -> Costs:
    """Measure on private servers, in about a minute."""
    with private_redis() as server:
        batched, single, entry, packed = _on_redis(server, entries, singles)
    with private_postgres() as postgres:
        on_postgres = _on_postgres(postgres, entries // 10, singles // 10)
    return Costs(
        batched=batched,
        single=single,
        entry=entry,
        packed=packed,
        postgres_batched=on_postgres[0],
        postgres_single=on_postgres[1],
        postgres_entry=on_postgres[2],
    )


def _on_redis(server: RedisServer, entries: int, singles: int) -> tuple[float, float, float, float]:
    history, numbers = RedisHistory.from_url(server.url), count()
    try:
        with cast("Any", redis.Redis).from_url(server.url) as client:
            keep = in_the_middle_of_its_slice(client)
            remember(history, "warm", numbered(numbers, CLAIM_BATCH), time_to_live=keep)
            bytes_before = redis_memory(client)
            batched = _processor(
                client, lambda: _remember_all(history, "batched", numbers, entries, CLAIM_BATCH, keep)
            )
            each = (redis_memory(client) - bytes_before) / entries
            age(client, "batched")
            drive(history.purge("batched"))
            packed = (redis_memory(client) - bytes_before) / entries
            single = _processor(client, lambda: _remember_all(history, "single", numbers, singles, 1, keep))
            return batched / entries, single / singles, each, packed
    finally:
        drive(history.close())


def _remember_all(
    history: RedisHistory, name: str, numbers: Iterator[int], entries: int, at_once: int, keep: timedelta
) -> None:
    for _ in range(entries // at_once):
        remember(history, name, numbered(numbers, at_once), time_to_live=keep)


def _processor(client: Any, work: Callable[[], object]) -> float:
    """Return the processor time of Redis for some work, in seconds."""
    before = redis_seconds(client)
    work()
    return redis_seconds(client) - before


def _on_postgres(server: PostgresServer, entries: int, singles: int) -> tuple[float, float, float]:
    @trigger("queue", name="scale", history=server.url)
    def idle(_message: Message) -> None: ...

    numbers = count()

    def fresh(amount: int) -> list[Message]:
        return [Message(body=b"{}", uuid=str(next(numbers)), delivery_count=1) for _ in range(amount)]

    idle.handle_batch(fresh(CLAIM_BATCH))
    before, begun = _table_bytes(server), time.perf_counter()
    for _ in range(entries // CLAIM_BATCH):
        idle.handle_batch(fresh(CLAIM_BATCH))
    batched = (time.perf_counter() - begun) / entries
    each = (_table_bytes(server) - before) / entries
    begun = time.perf_counter()
    for message in fresh(singles):
        idle.handle(message)
    return batched, (time.perf_counter() - begun) / singles, each


def _table_bytes(server: PostgresServer) -> int:
    import psycopg  # noqa: PLC0415  (only where it is measured)

    with psycopg.connect(server.url) as connection:
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'"
        ).fetchone()
    return int(row[0] or 0) if row else 0
