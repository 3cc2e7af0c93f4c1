"""``python -m benchmarks.curves``: measure how speed changes as something grows, print and draw it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.curves import measuring
from benchmarks.curves.measuring import Curve
from benchmarks.servers import private_redis


def main(
    *,
    picture: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG.")] = None,
    data: Annotated[Path | None, typer.Option(help="Write the numbers into this JSON file.")] = None,
    entries: Annotated[int, typer.Option(min=1_000_000, help="How many entries at most.")] = 10_000_000,
) -> None:
    """Measure each curve on its own Redis: about eight minutes."""
    console = Console()
    curves: list[Curve] = []
    for curve in _measured(entries):
        console.print(_table(curve))
        curves.append(curve)
    if data is not None:
        data.write_text(json.dumps([asdict(curve) for curve in curves], indent=2) + "\n")
    if picture is not None:
        _draw(curves, picture)


def _measured(entries: int) -> Iterator[Curve]:
    sizes = [size for size in measuring.ENTRIES if size <= entries]
    curves: Sequence[Callable[[str], Curve]] = (
        measuring.batches,
        measuring.bodies,
        partial(measuring.processes, batch=1),
        partial(measuring.processes, batch=200),
        partial(measuring.entries, sizes=sizes),
    )
    for measure in curves:
        with private_redis() as server:
            yield measure(server.url)


def _table(curve: Curve) -> Table:
    table = Table(title=curve.title)
    table.add_column(curve.grows, justify="right")
    table.add_column("messages/s", justify="right")
    for size, speed in curve.points:
        table.add_row(f"{size:,}", f"{speed:,.0f}")
    return table


def _draw(curves: Sequence[Curve], file: Path) -> None:
    """Draw each curve into its own frame, with the growing number on the x axis, and save a PNG."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (only the bench extra has it)

    figure: Any = Figure(figsize=(11, 3.2 * ((len(curves) + 1) // 2)), layout="constrained")
    frames = figure.subplots((len(curves) + 1) // 2, 2, squeeze=False).flatten()
    for frame, curve in zip(frames, curves, strict=False):
        sizes, speeds = [size for size, _ in curve.points], [speed for _, speed in curve.points]
        frame.plot(sizes, speeds, marker="o")
        if max(sizes) > 4 * min(sizes):
            frame.set_xscale("log")
        frame.set_ylim(bottom=0)
        frame.set_title(curve.title, fontsize=10)
        frame.set_xlabel(curve.grows)
        frame.set_ylabel("messages/s")
        frame.yaxis.set_major_formatter("{x:,.0f}")
        frame.grid(alpha=0.3)
    for frame in frames[len(curves) :]:
        frame.set_visible(False)
    figure.savefig(file, dpi=90)


if __name__ == "__main__":
    typer.run(main)
