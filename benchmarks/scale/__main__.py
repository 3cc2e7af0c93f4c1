"""``python -m benchmarks.scale``: measure the costs, then compute the servers for loads and their limits."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.scale.costs import Costs, measure
from benchmarks.scale.needs import needs_of
from benchmarks.scale.simulation import Load, simulate

#: Messages per second.
LOADS = (10_000, 100_000, 1_000_000)

#: Shards of the simulated Cluster, and numbers of triggers that share them.
SHARDS, NAMES = (1, 2, 4, 8, 16, 32, 64), (1, 16, 256, 4096)


def main(
    *,
    seed: Annotated[int, typer.Option(help="Of the simulation.")] = 1,
    entries: Annotated[int, typer.Option(min=2000, help="How many entries to measure with.")] = 200_000,
) -> None:
    """Measure what a message costs, then compute and simulate what many need."""
    console = Console()
    costs = measure(entries=entries)
    console.print(_of_costs(costs))
    console.print(_of_needs(costs))
    for names in NAMES:
        console.print(_of_shards(costs, names, seed))


def _of_costs(costs: Costs) -> Table:
    table = Table(title="What a new message costs (claim and completion)")
    table.add_column("where")
    table.add_column("batches of 200", justify="right")
    table.add_column("one at a time", justify="right")
    table.add_column("bytes kept", justify="right")
    table.add_row(
        "Redis, the server alone",
        _us(costs.batched),
        _us(costs.single),
        f"{costs.entry:.1f}, then {costs.packed:.1f}",
    )
    table.add_row(
        "PostgreSQL and its client",
        _us(costs.postgres_batched),
        _us(costs.postgres_single),
        f"{costs.postgres_entry:.0f}",
    )
    return table


def _of_needs(costs: Costs) -> Table:
    table = Table(title="The needs of a load that is kept for seven days")
    for heading in (
        "new a second",
        "Redis shards",
        "of memory",
        "one at a time",
        "PostgreSQL",
        "Spark executors",
    ):
        table.add_column(heading, justify="right")
    for load in LOADS:
        needs = needs_of(load, costs)
        table.add_row(
            f"{load:,}",
            f"{needs.shards}",
            f"{needs.memory / 2**40:.2f} TiB",
            f"{needs.shards_single}",
            f"{needs.postgres}, {needs.disk / 2**40:.1f} TiB",
            f"{needs.executors}",
        )
    return table


def _of_shards(costs: Costs, names: int, seed: int) -> Table:
    load = Load(messages=100_000, names=names)
    table = Table(title=f"{load.messages:,.0f} messages a second of {names:,} triggers, simulated")
    for heading in ("shards", "busy, mean", "busy, most", "half within", "99 of 100 within"):
        table.add_column(heading, justify="right")
    for shards in SHARDS:
        result = simulate(load, shards=shards, per_message=costs.batched, per_call=costs.call, seed=seed)
        waits = (_ms(result.median), _ms(result.slow)) if result.keeps_up else ("grows", "grows")
        table.add_row(f"{shards}", f"{result.mean_busy:.0%}", f"{result.most_busy:.0%}", *waits)
    return table


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms"


if __name__ == "__main__":
    typer.run(main)
