"""Bytes of Redis per completed entry."""

from collections.abc import Iterable

from benchmarks.bench import Bench
from benchmarks.costs import redis_memory
from benchmarks.filling import fill
from benchmarks.result import Budget, Result
from history.bridge import drive
from history.redis import RedisHistory

#: A digest of 16 bytes, which no history can do without.
DIGEST = 16


def measure(bench: Bench) -> Iterable[Result]:
    """Fill an empty Redis and see how much it has grown."""
    bare, entries = bench.bare(), bench.effort.entries
    bare.flushall()
    history = RedisHistory.from_url(bench.server.url)
    empty = redis_memory(bare)
    fill(bench, history, "memory", entries)
    each = (redis_memory(bare) - empty) / entries
    drive(history.close())
    bare.flushall()
    yield Result(
        what=f"memory per completed entry, at {entries:,}",
        beside="the digest alone",
        unit="bytes",
        measured=each,
        floor=DIGEST,
        ratio=each / DIGEST,
        budget=Budget(32 / DIGEST, "x the bytes (32)"),
    )
