"""The simulation of many shards, and the arithmetic of what a load needs."""

import pytest

from benchmarks.scale.costs import Costs
from benchmarks.scale.needs import KEPT, SHARD, needs_of
from benchmarks.scale.simulation import Load, simulate

COSTS = Costs(
    batched=6e-6,
    single=40e-6,
    entry=24,
    packed=18,
    postgres_batched=3e-4,
    postgres_single=5e-3,
    postgres_entry=370,
)


def busy(shards: int, names: int, *, messages: float = 100_000, seed: int = 1) -> float:
    load = Load(messages=messages, names=names)
    return simulate(load, shards=shards, per_message=6e-6, per_call=0, calls=5_000, seed=seed).most_busy


def test_one_trigger_gains_nothing_from_more_shards() -> None:
    assert busy(64, names=1) == pytest.approx(busy(1, names=1))


def test_many_triggers_share_their_work_among_shards() -> None:
    assert busy(4, names=4096) == pytest.approx(busy(1, names=4096) / 4, rel=0.1)


def test_a_few_triggers_leave_some_shards_busier_than_others() -> None:
    found = simulate(Load(messages=100_000, names=16), shards=16, per_message=6e-6, per_call=0, calls=5_000)

    assert found.most_busy > 2 * found.mean_busy


def test_a_shard_that_gets_more_than_it_can_do_does_not_keep_up() -> None:
    light = simulate(Load(messages=100_000, names=1), shards=1, per_message=6e-6, per_call=0)
    heavy = simulate(Load(messages=200_000, names=1), shards=1, per_message=6e-6, per_call=0)

    assert light.keeps_up
    assert not heavy.keeps_up
    assert heavy.slow > 10 * light.slow


def test_a_seed_repeats_a_run() -> None:
    assert busy(8, names=16, seed=7) == busy(8, names=16, seed=7)
    assert busy(8, names=16, seed=7) != busy(8, names=16, seed=8)


def test_a_load_needs_what_its_work_or_its_memory_needs_whichever_is_more() -> None:
    needs = needs_of(100_000, COSTS)

    assert (needs.shards_batched, needs.memory) == (1, 100_000 * KEPT * 1.5 * 20)
    assert needs.shards == needs.shards_memory == -(-needs.memory // SHARD)
    assert needs.shards_single == 7
