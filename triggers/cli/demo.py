"""``doubtless demo``: the main job, with a kill half way, checked row by row."""

import dataclasses
import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from triggers.cli.shared.arguments import refuse_unreadable
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.loading import collect
from triggers.cli.shared.output import CliState
from triggers.demo.ground import Ground, GroundName

if TYPE_CHECKING:
    from triggers.demo.job import Summary
    from triggers.demo.pipeline import PipelineSummary

#: The module of the dashboard; it is in a layer above the command line.
_DASHBOARD = "triggers.dashboard.command"


@with_general_options
def demo(
    context: typer.Context,
    orders: Path | None = typer.Option(
        None, exists=True, dir_okay=False, help="A JSON Lines file of orders. By default, the demo makes one."
    ),
    count: int = typer.Option(2500, min=10, max=10_000_000, help="How many different orders to make."),
    on: GroundName = typer.Option(
        GroundName.SQLITE, help="Run the demo on one SQLite file, or on a Redis server that it starts."
    ),
    dashboard: bool = typer.Option(
        False,
        "--dashboard",
        help='At the end, serve the dashboard over the demo until Ctrl-C. Needs the extra "dashboard".',
    ),
    spark: bool = typer.Option(True, help="End with a Spark pipeline, if Java and PySpark are installed."),
) -> None:
    """Book each order of a file once, although lines are repeated or broken and the worker is killed.

    With SQLite, messages, history and bookings are in one file. Each order changes them in one transaction,
    so no order is In Doubt. With Redis, the bookings are stored elsewhere. Orders that were in flight when
    the worker was killed are In Doubt. They are parked when their lease ends. A lease lasts 2 seconds in the
    demo, and 30 seconds by default. All data is in a temporary folder. The exit code is 1 if the booked rows
    differ from what the file and the guarantees say.

    At the end, the same file goes to a Spark pipeline with the same history. It books only new orders.
    """
    if orders is not None:
        refuse_unreadable("--orders", orders)
    if dashboard and context.obj.as_json:
        raise typer.BadParameter("--dashboard is for people, and --json for programs: leave one out")
    if dashboard:
        import_module(_DASHBOARD)  # report a missing extra before the work, not after it
    from triggers.demo.job import DemoJob  # noqa: PLC0415  (no other command needs it)

    state = CliState.of(context)
    with tempfile.TemporaryDirectory(prefix="doubtless-demo-") as name:
        folder = Path(name)
        file = orders or _write(folder / "orders.jsonl", count)
        with _ground(on, folder, state) as ground:
            summary = DemoJob(folder=folder, ground=ground, orders=file, say=state.say).run()
            if not state.as_json:
                _print_orders(state, summary)
            pipeline = _end_with_pipeline(state, ground.history, file, folder) if spark else None
            if dashboard:
                _serve_dashboard(state, ground)
    if state.as_json:
        of_spark = None if pipeline is None else dataclasses.asdict(pipeline)
        state.document({**dataclasses.asdict(summary), "spark": of_spark})
    if summary.mistakes or (pipeline is not None and pipeline.mistakes):
        raise typer.Exit(1)


@contextmanager
def _ground(name: GroundName, folder: Path, state: CliState) -> Generator[Ground]:
    if name is GroundName.SQLITE:
        ground = Ground.sqlite(folder)
        state.say(f"messages, history and bookings are in one file, {ground.bookings.name}")
        yield ground
        return
    from triggers.testing.redis_server import RedisServer  # noqa: PLC0415  (as above)

    with RedisServer(folder, appendfsync="everysec") as server:
        state.say(f"a private Redis listens on port {server.port}")
        yield Ground.redis(folder, server.url)


def _serve_dashboard(state: CliState, ground: Ground) -> None:
    """Let people look at the demo's messages, and decide about them, until Ctrl-C."""
    serving: Any = import_module(_DASHBOARD)
    os.environ["BOOKINGS"] = str(ground.bookings)  # where the dashboard's runs book
    state.say("look around, and run what is In Doubt; Ctrl-C ends it, and deletes everything")
    triggers = collect(ground.module)
    serving.serve_until_stopped(state, ground.history, triggers, [ground.provider])


def _write(file: Path, count: int) -> Path:
    from triggers.demo.orders import make_orders  # noqa: PLC0415  (as above)

    file.write_bytes(b"".join(line + b"\n" for line in make_orders(count)))
    return file


def _end_with_pipeline(state: CliState, history: str, orders: Path, folder: Path) -> "PipelineSummary | None":
    """Send the same file to a pipeline of Spark and show its result; None without Spark, which is printed."""
    from triggers.demo.pipeline import run_pipeline, why_left_out  # noqa: PLC0415  (as above)

    missing = why_left_out()
    if missing is not None:
        state.say(f"the pipeline of Spark is left out: {missing}")
        return None
    state.say("sending the same file again, and some orders more, to a pipeline of Spark")
    summary = run_pipeline(history, orders, folder)
    if not state.as_json:
        rows = {
            "read (lines of the file, and the further orders twice)": summary.rows,
            "new, booked once": summary.new,
            "duplicates, most of what the service had met": summary.duplicate,
            "In Doubt, parked (in flight when the worker was killed)": summary.in_doubt,
            "rejected, parked (lines that name nobody)": summary.rejected,
        }
        verdict = "checked against its files: what the service had booked, it did not book again"
        _print(state, "what the pipeline of Spark made of it", "rows", rows, summary.mistakes, verdict)
    return summary


def _print_orders(state: CliState, summary: "Summary") -> None:
    messages = {
        "sent (lines of the file)": summary.sent,
        "booked once": summary.booked_once,
        "booked twice": summary.booked_twice,
        "duplicates, not run": summary.duplicates,
        "In Doubt, parked (in flight when the worker was killed)": summary.in_doubt,
        "rejected, parked (broken lines)": summary.rejected,
    }
    verdict = f"checked against the booked rows: every line is accounted for ({summary.seconds:.1f} s)"
    _print(state, "what became of the orders", "messages", messages, summary.mistakes, verdict)


def _print(
    cli: CliState, title: str, counted: str, counts: Mapping[str, int], mistakes: Sequence[str], verdict: str
) -> None:
    """Show a table of counts, and its mistakes; the verdict if there are none."""
    rows: list[dict[str, Any]] = [{"what": what, counted: count} for what, count in counts.items()]
    cli.show(title, ["what", counted], rows)
    for mistake in mistakes:
        cli.say(f"wrong: {mistake}", style="bold red")
    if not mistakes:
        cli.say(verdict)
