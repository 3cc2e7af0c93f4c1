"""Where the processor time of one atomic message on PostgreSQL goes.

``python -m benchmarks.profile.atomic`` runs the consumer of the bench's atomic row, which fetches ten
messages in one call. Python's profiler measures each part of a message with the clock of the worker's thread.
Waiting for the server does not count. The profiler makes small functions look more expensive than they are.
"""

import cProfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pstats import Stats
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from benchmarks.profile.shares import shares_of
from benchmarks.rows.atomic import PREFETCH, OurMessages
from benchmarks.rows.sqljms import open_server
from triggers import Trigger


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a message's cost: its functions, by the end of their file path and their name."""

    what: str
    functions: Sequence[tuple[str, str]]


PARTS = (
    Part("claim, with BEGIN and the first savepoint", [("pipeline/judge.py", "claim")]),
    Part("commit, with completion and removal", [("contextlib.py", "__aexit__")]),
    Part("the service, its own statement through SQLAlchemy", [("rows/atomic.py", "write")]),
    Part("receiving", [("sqljms/receiving/receiver.py", "receive")]),
    Part("savepoints between messages", [("sql/transaction.py", "mark"), ("sql/transaction.py", "keep")]),
    Part("a connection from the pool", [("sql/transaction.py", "_begin")]),
)


@dataclass(slots=True)
class Profiled(OurMessages):
    """The trigger of the row. The profile covers its worker's thread from the first message to the last."""

    profile: cProfile.Profile | None = None
    messages: int = 0

    def make_trigger(self, note: Callable[[int], None]) -> Trigger[..., None]:
        """Return the trigger. It starts and ends the profile in the thread that it runs on."""
        profile, done = self.profile, 0

        def note_too(number: int) -> None:
            nonlocal done
            done += number
            if profile is not None and done == 1:
                profile.enable()
            if profile is not None and done == self.messages:
                profile.disable()
            note(number)

        return OurMessages.make_trigger(self, note_too)


def main(
    *,
    messages: Annotated[int, typer.Option(help="Messages that are profiled.")] = 3000,
    dump: Annotated[str, typer.Option(help="A file for all of the profile, as pstats reads it.")] = "",
) -> None:
    """Measure, and print a table."""
    profile = cProfile.Profile(time.thread_time)
    with open_server() as url:
        ours = Profiled(url, insert=True, messages=messages)
        ours.fill(messages + 2000)
        ours.work(500)
        ours.profile = profile
        ours.work(messages)
    if dump:
        profile.dump_stats(dump)
    show(Stats(profile), messages)


def show(stats: Stats, messages: int) -> None:
    """Print the time of each part, and its share of the thread's time."""
    functions = cast("Any", stats).stats
    whole = sum(own for _, _, own, _, _ in functions.values()) / messages * 1e6
    parts = {part.what: _seconds_of(part, functions) / messages * 1e6 for part in PARTS}
    parts["all else of pipeline and consumer"] = whole - sum(parts.values())
    title = f"one atomic message, prefetch={PREFETCH}: {whole:.0f} us of the worker's thread"
    Console().print(shares_of(title, parts))


def _seconds_of(part: Part, functions: Any) -> float:
    seconds: float = sum(
        cumulative
        for (file, _, name), (_, _, _, cumulative, _) in functions.items()
        if any(file.endswith(end) and name == function for end, function in part.functions)
    )
    return seconds


if __name__ == "__main__":
    typer.run(main)
