"""Bytes of Redis per completed entry."""

from collections.abc import Iterable
from typing import Any

from benchmarks.bench import Bench
from benchmarks.result import Budget, Result
from benchmarks.rows.filling import fill
from history.bridge import drive
from history.redis import RedisHistory

#: A digest of 16 bytes, which no history can do without.
DIGEST = 16


def measure(bench: Bench) -> Iterable[Result]:
    """Fill an empty Redis and see how much it has grown."""
    bare, entries = bench.bare(), bench.effort.entries
    bare.flushall()
    history = RedisHistory.from_url(bench.server.url)
    empty = _used(bare)
    fill(bench, history, "memory", entries)
    each = (_used(bare) - empty) / entries
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


def _used(client: Any) -> int:
    info = client.info("memory")
    return int(info["used_memory"]) - int(info["mem_aof_buffer"])
