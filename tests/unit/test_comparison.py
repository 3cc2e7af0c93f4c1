"""``python -m benchmarks.compare`` pairs the lines of two runs, and says which are faster or slower."""

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.compare import lines


def run_of(unit: str, **ratios: float) -> Mapping[str, Any]:
    return {
        "results": [{"what": w, "beside": "b", "unit": unit, "ratio": ratio} for w, ratio in ratios.items()]
    }


@pytest.mark.parametrize(
    ("unit", "after", "verdict"),
    [
        ("µs", 1.5, "[red]slower[/]"),
        ("µs", 0.5, "[green]faster[/]"),
        ("messages/s", 1.5, "[green]faster[/]"),
        ("messages/s", 0.5, "[red]slower[/]"),
        ("µs", 1.01, "same"),
    ],
)
def test_a_line_is_faster_by_what_its_unit_means(unit: str, after: float, verdict: str) -> None:
    (line,) = lines(run_of(unit, claim=1.0), run_of(unit, claim=after))

    assert line.change == pytest.approx(after)
    assert line.verdict == verdict


def test_a_line_that_one_run_has_not_is_named_with_what_is_known() -> None:
    gone, new = lines(run_of("µs", claim=1.0), run_of("µs", settle=2.0))

    assert (gone.before, gone.after, gone.verdict) == (1.0, None, "gone")
    assert (new.before, new.after, new.verdict) == (None, 2.0, "new")
