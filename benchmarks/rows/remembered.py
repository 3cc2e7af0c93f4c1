"""The costs of remembered entries: bytes of Redis for each, packed or not, and the speed of claims."""

from collections.abc import Iterable, Sequence

from benchmarks.bench import Bench
from benchmarks.costs import redis_memory
from benchmarks.filling import fill, numbered
from benchmarks.measuring import Pass
from benchmarks.result import SPEED, Budget, Result, speeds
from history.bridge import drive
from history.entry import SHORT_DIGEST_SIZE
from history.redis import RedisHistory
from history.store import CLAIM_BATCH
from tests.fixtures.aging import age, in_the_middle_of_its_slice

#: The most bytes of an entry before and after its bucket is packed.
IN_HASH, PACKED = 26, 20

#: The large history remembers this many times more entries.
TIMES = 10


def measure_growth(bench: Bench) -> Iterable[Result]:
    """Let a history with ten times the entries take turns with one of a million, on one server."""
    bench.bare().flushall()
    history, entries = RedisHistory.from_url(bench.server.url), bench.effort.entries
    fill(bench, history, "small", entries)
    fill(bench, history, "large", TIMES * entries)

    def new_uuids(count: int) -> Sequence[str]:
        return numbered(bench.numbers, count)

    def claiming(trigger: str) -> Pass[str]:
        return lambda uuids: drive(history.claim(trigger, uuids, "benchmark"))

    passes = {trigger: claiming(trigger) for trigger in ("small", "large")}
    times = bench.rounds(CLAIM_BATCH).run("claims", new_uuids, passes)
    yield speeds(
        times,
        "large",
        "small",
        what=f"claims, {TIMES * entries:,} entries remembered",
        beside=f"claims, {entries:,} remembered",
        unit="claims/s",
        budget=Budget(0.9, SPEED, at_least=True),
    )


def measure_memory(bench: Bench) -> Iterable[Result]:
    """Fill an empty Redis and measure its growth. Then let the time slice end, sweep, and measure again."""
    bare, entries = bench.bare(), bench.effort.entries
    bare.flushall()
    history = RedisHistory.from_url(bench.server.url)
    empty = redis_memory(bare)
    fill(bench, history, "memory", entries, time_to_live=in_the_middle_of_its_slice(bare))
    in_hash = (redis_memory(bare) - empty) / entries
    age(bare, "memory")
    drive(history.purge("memory"))
    packed = (redis_memory(bare) - empty) / entries
    drive(history.close())
    bare.flushall()
    yield _bytes(f"memory per completed entry, at {entries:,}", in_hash, IN_HASH)
    yield _bytes(f"the same after its slice has ended, at {entries:,}", packed, PACKED)


def _bytes(what: str, each: float, most: int) -> Result:
    return Result(
        what=what,
        beside="the digest alone",
        unit="bytes",
        measured=each,
        floor=SHORT_DIGEST_SIZE,
        ratio=each / SHORT_DIGEST_SIZE,
        budget=Budget(most / SHORT_DIGEST_SIZE, f"x the bytes ({most})"),
    )
