"""Claims over the shards of a Redis Cluster, simulated: queues that fill where hash slots are unlucky.

A shard is one thread, as Redis is: calls wait in line. Calls arrive at random (a Poisson process), each for
one name; a name belongs to one slot, and a slot to one shard, as in a real Cluster. So the simulation shows
what arithmetic does not: how uneven the shards are, and how long a call waits.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from redis.crc import key_slot

from history.store import CLAIM_BATCH

#: The number of slots of a Redis Cluster.
SLOTS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """So many messages per second of so many triggers, in calls of so many messages."""

    messages: float
    names: int
    batch: int = CLAIM_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The load of a shard (above 1: too much), and the duration of a call, in seconds."""

    shards: int
    mean_busy: float
    most_busy: float
    median: float
    slow: float

    @property
    def keeps_up(self) -> bool:
        """Whether no shard's queue grew without limit."""
        return self.most_busy < 1


def simulate(
    load: Load, *, shards: int, per_message: float, per_call: float, calls: int = 40_000, seed: int = 1
) -> Found:
    """Let ``calls`` calls arrive. ``per_message`` and ``per_call`` are their costs, in seconds."""
    chance = random.Random(seed)  # noqa: S311  (a simulation)
    homes = _homes(load.names, shards)
    each = per_call + per_message * load.batch
    free, busy, took, now = [0.0] * shards, [0.0] * shards, [0.0] * calls, 0.0
    for number in range(calls):
        now += chance.expovariate(load.messages / load.batch)
        shard = homes[chance.randrange(load.names)]
        end = max(now, free[shard]) + each
        free[shard], took[number] = end, end - now
        busy[shard] += each
    shares = [seconds / now for seconds in busy]
    cuts = quantiles(took, n=100)
    return Found(
        shards=shards,
        mean_busy=sum(shares) / shards,
        most_busy=max(shares),
        median=cuts[49],
        slow=cuts[98],
    )


def _homes(names: int, shards: int) -> Sequence[int]:
    """Return the shard of each name: slots are dealt out in equal ranges, names by their hash tag."""
    return [
        key_slot(f"doubtless:{{trigger-{number}}}:history".encode()) * shards // SLOTS
        for number in range(names)
    ]
