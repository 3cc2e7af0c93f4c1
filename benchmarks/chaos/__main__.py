"""The command ``python -m benchmarks.chaos``.

Exit code 1: a message ran twice, or is lost, with no excuse.
"""

import random
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.chaos.account import Fate, Report
from benchmarks.chaos.ground import Ground
from benchmarks.chaos.postgres_ground import postgres_ground
from benchmarks.chaos.redis_grounds import cluster_ground, sentinel_ground
from benchmarks.chaos.soak import ChaosSoak
from benchmarks.servers import private_redis, scratch

#: The grounds of a soak, by name.
GROUNDS: Mapping[str, Callable[[Path], AbstractContextManager[Ground]]] = {
    "sentinel": sentinel_ground,
    "sentinel-confirmed": partial(sentinel_ground, confirmed=True),
    "cluster": cluster_ground,
    "postgres": postgres_ground,
    "postgres-synchronous": partial(postgres_ground, synchronous=True),
    "postgres-atomic": partial(postgres_ground, atomic=True),
}


#: The same names, for a help text.
KNOWN = ", ".join(GROUNDS)


def run(
    name: str,
    *,
    messages: int,
    troubles: int,
    seed: int,
    show: Callable[[int, str], None] = lambda _effects, _trouble: None,
) -> Report:
    """Run one soak on the ground that is called ``name``, in a folder that is deleted afterwards."""
    with (
        scratch() as folder,
        scratch() as queue,
        private_redis() as provider,
        GROUNDS[name](folder) as ground,
    ):
        soak = ChaosSoak(
            folder=queue,
            provider=provider.url,
            name=name,
            ground=ground,
            messages=messages,
            troubles=troubles,
            seed=seed,
        )
        return soak.run(show)


def main(
    over: Annotated[list[str] | None, typer.Option(help=f"What to stand on, repeatable: {KNOWN}.")] = None,
    messages: int = typer.Option(100_000, min=500, help="How many to send on each; one in 20 is a copy."),
    troubles: int = typer.Option(70, min=0, help="How often something happens to each, at most."),
    seed: int | None = typer.Option(None, help="Repeats another run's choices."),
) -> None:
    """Make trouble on servers of each kind, and account for every message."""
    console = Console()
    chosen = random.SystemRandom().randrange(2**32) if seed is None else seed
    console.print(f"seed {chosen}")
    mistakes = 0
    for name in over or GROUNDS:
        report = _run_and_show(console, name, messages=messages, troubles=troubles, seed=chosen)
        console.print(_table(report))
        for mistake in report.mistakes:
            console.print(f"[red]{mistake}")
        mistakes += len(report.mistakes)
    sys.exit(1 if mistakes else 0)


def _run_and_show(console: Console, name: str, *, messages: int, troubles: int, seed: int) -> Report:
    bar = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*bar, console=console) as progress:
        task = progress.add_task(name, total=messages)

        def show(effects: int, trouble: str) -> None:
            progress.update(task, completed=effects, description=f"{name} {trouble}".ljust(32))

        return run(name, messages=messages, troubles=troubles, seed=seed, show=show)


def _table(report: Report) -> Table:
    table = Table(title=f"{report.ground}: {report.fates.total()} messages in {report.seconds:.0f} s")
    table.add_column("what")
    table.add_column("times", justify="right")
    for fate in Fate:
        table.add_row(fate, str(report.fates[fate]))
    table.add_section()
    table.add_row("uuids of which a server lost something", str(len(report.lost.uuids)))
    table.add_row("of these, entries that were gone", str(report.lost.forgotten))
    table.add_row("parked messages that a server lost", str(len(report.lost.parked)))
    table.add_row("announcements in the consumers' logs", str(report.announced))
    table.add_section()
    for what, times in sorted(report.troubles.items()):
        table.add_row(what, str(times))
    return table


if __name__ == "__main__":
    typer.run(main)
