"""``python -m benchmarks`` prints a table that a terminal of 80 columns shows, each name in few lines."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.report import draw, show
from benchmarks.result import SPEED, Budget, Result

NAME = "consumer with 1,000 tasks of 50 ms on Redis Streams"
BESIDE = "tasks by hand: XREADGROUP of what is free, then SET NX and XACK of each"


def test_a_long_name_takes_four_lines_and_says_whether_its_budget_is_met() -> None:
    budget = Budget(1.25, SPEED, at_least=True)
    result = Result(
        what=NAME, beside=BESIDE, unit="messages/s", measured=6015, floor=4942, ratio=1.2, budget=budget
    )
    written = io.StringIO()

    show([result], Console(file=written, width=80))

    lines = written.getvalue().splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert max(map(len, lines)) <= 80
    assert len(cells) <= 4
    assert " ".join(row[0] for row in cells) == f"{NAME} {BESIDE}"
    assert [cells[0][1], cells[1][1], cells[2][1]] == ["6,015", "4,942", "messages/s"]
    assert (cells[0][3], cells[1][3]) == (">= 1.25 no", "x the speed")


@pytest.mark.slow
def test_the_speeds_are_drawn_and_the_times_are_left_out(tmp_path: Path) -> None:
    heights = [_height(tmp_path / "picture.png", "messages/s", *units) for units in ([], ["us"], ["rows/s"])]

    assert heights[0] == heights[1] < heights[2]


def _height(file: Path, *units: str) -> int:
    """Draw a result of each unit; return the height of the picture in pixels (PNG, third edition, 11.2.1)."""
    results = [
        Result(what=NAME, beside=BESIDE, unit=unit, measured=6015, floor=4942, ratio=1.2) for unit in units
    ]
    draw(results, file)
    return int.from_bytes(file.read_bytes()[20:24], "big")
