"""``python -m benchmarks``: measure the rows and print them with their floors and budgets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from benchmarks.bench import DEFAULT, FULL, QUICK, Effort, open_bench
from benchmarks.report import draw, show, to_json
from benchmarks.result import Result
from benchmarks.rows import ROWS


def main(
    *,
    quick: Annotated[
        bool, typer.Option(help="A few seconds: does everything run? Ratios mean little.")
    ] = False,
    full: Annotated[bool, typer.Option(help="Many rounds, and the rows that fill Redis.")] = False,
    json: Annotated[bool, typer.Option(help="Print JSON instead of a table.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Also draw the speeds into this PNG.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Measure this row; may be given again.")] = None,
) -> None:
    """Measure the cost of a message beside its least possible cost. A missed budget is not an error."""
    names = [row.name for row in ROWS]
    if unknown := set(only or []) - set(names):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: use one of {', '.join(names)}")
    effort = QUICK if quick else FULL if full else DEFAULT
    results = _measure(effort, only or [row.name for row in ROWS if effort.full or not row.full])
    if picture is not None:
        draw(results, picture)
    if json:
        print(to_json(results))
    else:
        show(results, Console())


def _measure(effort: Effort, names: list[str]) -> list[Result]:
    results: list[Result] = []
    with (
        Progress(console=Console(stderr=True), transient=True) as progress,
        open_bench(effort, progress) as bench,
    ):
        for row in ROWS:
            if row.name in names:
                results += row.measure(bench)
    return results


if __name__ == "__main__":
    typer.run(main)
