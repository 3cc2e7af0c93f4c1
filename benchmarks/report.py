"""Results for a reader, as a table, and for a program, as JSON."""

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.result import Result

_MEANING = (
    "Measured and floor took turns on one machine; each number is the median of the rounds, and the ratio is "
    "the median of their ratios. [b]x the time[/]: 1.00 is as fast as the floor, 2.00 takes twice as long. "
    "[b]x the speed[/]: 1.00 is as fast, 0.50 half as fast. Only ratios can be compared between machines."
)


def show(results: Sequence[Result], console: Console) -> None:
    """Print a table that fits 80 columns, and the meaning of a ratio."""
    table = Table(title="doubtless beside its floors", show_lines=True)
    table.add_column("what, and beside what", ratio=1)
    table.add_column("measured\nfloor\n[dim]unit[/]", justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("budget\nmet", no_wrap=True)
    for result in results:
        table.add_row(
            f"{result.what}\n[dim]{result.beside}[/]",
            f"{_number(result.measured)}\n[dim]{_number(result.floor)}\n{result.unit}[/]",
            f"{result.ratio:.2f}",
            _verdict(result),
        )
    console.print(table)
    console.print(_MEANING)


def _verdict(result: Result) -> str:
    if result.budget is None:
        return "-"
    met = "[green]yes[/]" if result.met else "[red]no[/]"
    return f"{result.budget.bound} {met}\n[dim]{result.budget.of}[/]"


def draw(results: Sequence[Result], file: Path) -> None:
    """Draw the speeds of results as bars, each next to its floor, and save a PNG. Times are left out."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (only the bench extra has it)

    speeds = [result for result in results if result.unit.endswith("/s")][::-1]
    figure: Any = Figure(figsize=(9, 1 + 0.8 * len(speeds)), layout="constrained")
    axes = figure.subplots()
    for shift, name, colour in ((0.2, "measured", "#2563eb"), (-0.2, "floor", "#9ca3af")):
        values = [getattr(result, name) for result in speeds]
        places = [index + shift for index in range(len(speeds))]
        label = "doubtless" if name == "measured" else ", ".join({result.beside for result in speeds})
        bars = axes.barh(places, values, height=0.38, color=colour, label=label)
        axes.bar_label(bars, labels=[_number(value) for value in values], padding=3, fontsize=9)
    axes.set_yticks(range(len(speeds)), [fill(result.what, 44) for result in speeds], fontsize=9)
    axes.set_xlabel(", ".join({result.unit for result in speeds}))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(file, dpi=110)


def to_json(results: Sequence[Result]) -> str:
    """Return the results, and the machine that measured them, as a JSON object."""
    return json.dumps({"machine": _machine(), "results": [_fields(result) for result in results]}, indent=2)


def _fields(result: Result) -> dict[str, object]:
    return {
        "what": result.what,
        "beside": result.beside,
        "unit": result.unit,
        "measured": result.measured,
        "floor": result.floor,
        "ratio": result.ratio,
        "budget": None if result.budget is None else str(result.budget),
        "met": result.met,
    }


def _machine() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "redis-py": version("redis"),
        "system": platform.platform(),
        "processors": os.cpu_count(),
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}"  # noqa: PLR2004  (four digits)
