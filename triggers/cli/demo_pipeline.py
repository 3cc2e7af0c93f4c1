"""The last part of ``doubtless demo``: a pipeline of Spark with the same file and the same history."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from triggers.cli.shared.output import State

if TYPE_CHECKING:
    from triggers.demo.pipeline import PipelineSummary


def end_with_pipeline(state: State, history: str, orders: Path, folder: Path) -> "PipelineSummary | None":
    """Run the pipeline and show the result; if it cannot run, print why, and return None."""
    from triggers.demo.pipeline import run_pipeline, why_left_out  # noqa: PLC0415  (only the demo needs it)

    missing = why_left_out()
    if missing is not None:
        state.say(f"the pipeline of Spark is left out: {missing}")
        return None
    state.say("sending the same file again, and some orders more, to a pipeline of Spark")
    summary = run_pipeline(history, orders, folder)
    if not state.as_json:
        _print(state, summary)
    return summary


def _print(state: State, summary: "PipelineSummary") -> None:
    rows: list[dict[str, Any]] = [
        {"what": "read (lines of the file, and the further orders twice)", "rows": summary.rows},
        {"what": "new, booked once", "rows": summary.new},
        {"what": "duplicates, most of what the service had met", "rows": summary.duplicate},
        {"what": "In Doubt, parked (in flight when the worker was killed)", "rows": summary.in_doubt},
        {"what": "rejected, parked (lines that name nobody)", "rows": summary.rejected},
    ]
    state.show("what the pipeline of Spark made of it", ["what", "rows"], rows)
    for mistake in summary.mistakes:
        state.say(f"wrong: {mistake}", style="bold red")
    if not summary.mistakes:
        state.say("checked against its files: what the service had booked, it did not book again")
