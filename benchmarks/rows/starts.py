"""Compares the processor time of a start with Python's own start, and with imports of pydantic and Typer."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.bench import Bench
from benchmarks.measuring import Pass, Rounds
from benchmarks.result import TIME, Budget, Result, durations

BARE, LIBRARIES = "python -c pass", "importing pydantic and typer"

#: The programs to start, as ``python -c`` takes them.
STARTS: Mapping[str, Sequence[str]] = {
    BARE: ["pass"],
    LIBRARIES: ["import typer; from pydantic import BaseModel"],
    "import triggers": ["import triggers"],
    "doubtless --help": ["from triggers.cli import main; main()", "--help"],
}

#: The budget of a start, and its floor; the other ratios inform.
BUDGETS: Mapping[tuple[str, str], Budget] = {
    ("import triggers", BARE): Budget(3, TIME),
    ("doubtless --help", LIBRARIES): Budget(2, TIME),
}

#: The most rounds. A single start takes long enough to be measured.
ROUNDS = 20

_COUNT = """
import atexit, sys
ours = {"history", "resolvers", "triggers"}
atexit.register(lambda: sys.stderr.write(str(sum(name.partition(".")[0] in ours for name in sys.modules))))
"""


def measure(bench: Bench) -> Iterable[Result]:
    """Let the starts take turns. All modules are compiled before, as after an installation."""
    rounds = Rounds(
        count=min(bench.effort.rounds, ROUNDS), messages=1, progress=bench.progress, clock=_children
    )
    with TemporaryDirectory(prefix="doubtless-bench-") as folder:
        passes = {name: _starting(arguments, Path(folder)) for name, arguments in STARTS.items()}
        times = rounds.run("starts", range, passes)
        for name in ("import triggers", "doubtless --help"):
            modules = _count_modules(STARTS[name])
            for floor in (BARE, LIBRARIES):
                what, budget = f"{name}, {modules} of our modules", BUDGETS.get((name, floor))
                yield durations(times, name, floor, what=what, beside=floor, unit="ms of CPU", budget=budget)


def _children() -> float:
    """Return the processor time, in seconds, of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _starting(arguments: Sequence[str], compiled: Path) -> Pass[int]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(compiled)}
    return lambda _: subprocess.run(
        [sys.executable, "-c", *arguments], env=environment, stdout=subprocess.DEVNULL, check=True
    )


def _count_modules(arguments: Sequence[str]) -> int:
    program, *rest = arguments
    ended = subprocess.run(
        [sys.executable, "-c", _COUNT + program, *rest], capture_output=True, text=True, check=True
    )
    return int(ended.stderr)
