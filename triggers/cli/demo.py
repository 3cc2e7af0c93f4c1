"""``doubtless demo``: the main job on a private Redis server, with a kill half way, checked row by row."""

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from triggers.cli.output import State

if TYPE_CHECKING:
    from triggers.demo.job import Summary


def demo(
    context: typer.Context,
    orders: Path | None = typer.Option(
        None,
        exists=True,
        dir_okay=False,
        help="A JSON Lines file of orders; made by the demo by default.",
    ),
    count: int = typer.Option(2500, min=10, help="How many different orders to make."),
) -> None:
    """Book a file of orders once each, although lines come twice, are broken, and the worker is killed.

    Starts a redis-server of its own on a free port, with its data in a temporary folder. The exit code is 1
    when the booked rows are not what the file and the guarantees say.
    """
    from triggers.demo.job import Job  # noqa: PLC0415  (no other command needs any of it)
    from triggers.testing.redis_server import RedisServer  # noqa: PLC0415  (as above)

    state = State.of(context)
    with tempfile.TemporaryDirectory(prefix="doubtless-demo-") as name:
        folder = Path(name)
        file = orders or _write(folder / "orders.jsonl", count)
        with RedisServer(folder, appendfsync="everysec") as server:
            state.say(f"a private Redis listens on port {server.port}")
            summary = Job(folder=folder, redis_url=server.url, orders=file, say=state.say).run()
    _print(state, summary)
    if summary.mistakes:
        raise typer.Exit(1)


def _write(file: Path, count: int) -> Path:
    from triggers.demo.orders import make_orders  # noqa: PLC0415  (as above)

    file.write_bytes(b"".join(line + b"\n" for line in make_orders(count)))
    return file


def _print(state: State, summary: "Summary") -> None:
    if state.as_json:
        state.document(dataclasses.asdict(summary))
        return
    rows: list[dict[str, Any]] = [
        {"what": "sent (lines of the file)", "messages": summary.sent},
        {"what": "booked once", "messages": summary.booked_once},
        {"what": "booked twice", "messages": summary.booked_twice},
        {"what": "duplicates, not run", "messages": summary.duplicates},
        {"what": "In Doubt, parked (in flight when the worker was killed)", "messages": summary.in_doubt},
        {"what": "rejected, parked (broken lines)", "messages": summary.rejected},
    ]
    state.show("what became of the orders", ["what", "messages"], rows)
    for mistake in summary.mistakes:
        state.say(f"wrong: {mistake}", style="bold red")
    if not summary.mistakes:
        state.say(f"checked against the booked rows: every line is accounted for ({summary.seconds:.1f} s)")
