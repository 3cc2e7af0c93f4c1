"""Bytes of Redis per completed entry, before and after its bucket is packed."""

from collections.abc import Iterable
from typing import Any

from benchmarks.bench import Bench
from benchmarks.result import Budget, Result
from benchmarks.rows.filling import fill
from history.bridge import drive
from history.entry import SHORT_DIGEST_SIZE
from history.redis import RedisHistory
from tests.fixtures.aging import age, in_the_middle_of_its_slice

#: Bytes that an entry may have before and after its bucket is packed.
IN_HASH, PACKED = 26, 20


def measure(bench: Bench) -> Iterable[Result]:
    """Fill an empty Redis and see its growth. Then let the slice of time end, sweep, and see again."""
    bare, entries = bench.bare(), bench.effort.entries
    bare.flushall()
    history = RedisHistory.from_url(bench.server.url)
    empty = _used(bare)
    fill(bench, history, "memory", entries, time_to_live=in_the_middle_of_its_slice(bare))
    in_hash = (_used(bare) - empty) / entries
    age(bare, "memory")
    drive(history.purge("memory"))
    packed = (_used(bare) - empty) / entries
    drive(history.close())
    bare.flushall()
    yield _result(f"memory per completed entry, at {entries:,}", in_hash, IN_HASH)
    yield _result(f"the same after its slice has ended, at {entries:,}", packed, PACKED)


def _result(what: str, each: float, most: int) -> Result:
    return Result(
        what=what,
        beside="the digest alone",
        unit="bytes",
        measured=each,
        floor=SHORT_DIGEST_SIZE,
        ratio=each / SHORT_DIGEST_SIZE,
        budget=Budget(most / SHORT_DIGEST_SIZE, f"x the bytes ({most})"),
    )


def _used(client: Any) -> int:
    info = client.info("memory")
    return int(info["used_memory"]) - int(info["mem_aof_buffer"])
