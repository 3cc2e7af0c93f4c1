"""``python -m benchmarks.compare BEFORE AFTER``: two runs of the suite beside each other, line by line.

Each is a file that ``python -m benchmarks --json`` wrote. Only ratios are compared: what was measured and its
floor took turns in one run, so that another machine, or the same one with other work, changes both.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

#: A change of the ratio by less than this is as much as noise makes.
NOISE = 0.05

_SLOWER, _FASTER = "[red]slower[/]", "[green]faster[/]"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of two runs: its ratio in each, or None if a run lacks it, and whether less is better."""

    what: str
    before: float | None
    after: float | None
    less_is_better: bool

    @property
    def change(self) -> float | None:
        """The factor between the two ratios."""
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def verdict(self) -> str:
        """The verdict in one word."""
        if self.change is None:
            return "gone" if self.after is None else "new"
        if abs(self.change - 1) < NOISE:
            return "same"
        return _FASTER if (self.change < 1) == self.less_is_better else _SLOWER


def lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Line]:
    """Pair the lines of two runs by their subject and floor. The lines of the first run come first."""
    old, new = _by_name(before), _by_name(after)
    for name in [*old, *(name for name in new if name not in old)]:
        row = old.get(name) or new[name]
        yield Line(
            f"{name[0]}\n[dim]{name[1]}[/]",
            old[name]["ratio"] if name in old else None,
            new[name]["ratio"] if name in new else None,
            # A budget for speed is a lower limit. For a line without a budget, the unit decides.
            less_is_better=not row["unit"].endswith("/s"),
        )


def _by_name(run: Mapping[str, Any]) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    return {(line["what"], line["beside"]): line for line in run["results"]}


def main(
    before: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The earlier run.")],
    after: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The later run.")],
) -> None:
    """Compare the ratios of two runs."""
    table = Table(title="ratios of two runs", show_lines=True)
    table.add_column("what, and beside what", ratio=1)
    for heading in ("before", "after", "change"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for line in lines(_read(before), _read(after)):
        change = "-" if line.change is None else f"{line.change - 1:+.0%}"
        table.add_row(line.what, _ratio(line.before), _ratio(line.after), change, line.verdict)
    Console().print(table)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        run: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        _by_name(run)
    except (ValueError, KeyError, TypeError) as error:
        remedy = "write one with python -m benchmarks --json > FILE"
        raise typer.BadParameter(f"{file} holds no run of the suite: {remedy}") from error
    return run


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


if __name__ == "__main__":
    typer.run(main)
