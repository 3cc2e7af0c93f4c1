"""Computes the shards, partitions and executors for a load from measured costs."""

import math
from dataclasses import dataclass

from benchmarks.scale.costs import Costs

#: The highest long-term load of a server. Above it, waiting times grow fast (see the simulation).
BUSY = 0.6

#: The time to live of an entry, in seconds: seven days.
KEPT = 7 * 24 * 3600

#: Redis may hold an entry longer by this factor, because it drops slices of half the time to live as a whole.
LINGERING = 1.5

#: Memory of one Redis shard that is given to entries, in bytes.
SHARD = 48 * 2**30

#: Cores of one PostgreSQL server.
POSTGRES_CORES = 16

#: Cores of one Spark executor, and what a new row costs all of Spark, Python and our client, in seconds.
EXECUTOR_CORES, SPARK_ROW = 4, 9e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The servers that a load needs; ``memory`` and ``disk`` are bytes of seven days."""

    messages: float
    shards_batched: int
    shards_single: int
    shards_memory: int
    memory: float
    postgres: int
    disk: float
    executors: int

    @property
    def shards(self) -> int:
        """Return the number of Redis shards for batches: by work or by memory, the larger of the two."""
        return max(self.shards_batched, self.shards_memory)


def needs_of(messages: float, costs: Costs) -> Needs:
    """Return the servers for so many new messages per second."""
    # Three slices: the open one is in hashes, and the two older ones are packed.
    memory = messages * KEPT * LINGERING * (costs.entry + 2 * costs.packed) / 3
    return Needs(
        messages=messages,
        shards_batched=_servers(messages * costs.batched),
        shards_single=_servers(messages * costs.single),
        shards_memory=math.ceil(memory / SHARD),
        memory=memory,
        postgres=_servers(messages * costs.postgres_batched / POSTGRES_CORES),
        disk=messages * KEPT * costs.postgres_entry,
        executors=_servers(messages * SPARK_ROW / EXECUTOR_CORES),
    )


def _servers(work: float) -> int:
    return max(1, math.ceil(work / BUSY))
