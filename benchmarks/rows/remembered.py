"""What many remembered entries cost: bytes of Redis for each of them, and claims beside more of them."""

from collections.abc import Iterable, Sequence

from benchmarks.bench import Bench
from benchmarks.costs import redis_memory
from benchmarks.filling import fill, numbered
from benchmarks.measuring import Pass
from benchmarks.result import SPEED, Budget, Result, speeds
from history.bridge import drive
from history.redis import RedisHistory
from history.store import CLAIM_BATCH

#: A digest of 16 bytes, which no history can do without.
DIGEST = 16

#: How much more the large history remembers.
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
