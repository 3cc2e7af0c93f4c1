"""What a page of the dashboard costs: processor time here and in the server, and statements.

Unlike the time on the clock, these numbers hardly change if the machine has other work.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from redis import Redis
from sqlalchemy import Engine, event

#: The unit of processor times in Linux's files, in seconds.
TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of this process and of the server, in seconds; and how many statements it ran."""

    here: float = 0.0
    server: float = 0.0
    statements: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        """Return the sum."""
        return Cost(self.here + other.here, self.server + other.server, self.statements + other.statements)


class Meter:
    """Reads the costs so far; ``pid`` is the server's process, ``statements`` counts what it ran."""

    def __init__(self, statements: Callable[[], int], pid: int | None = None) -> None:
        self._statements, self._pid = statements, pid

    def since(self, before: Cost) -> Cost:
        """Return what was spent since another reading."""
        now = self.read()
        return Cost(now.here - before.here, now.server - before.server, now.statements - before.statements)

    def read(self) -> Cost:
        """Return all that was spent so far."""
        server = 0.0 if self._pid is None else _spent(self._pid)
        return Cost(time.process_time(), server, self._statements())


def of_redis(url: str) -> Callable[[], int]:
    """Return a function that says how many commands a Redis has run, without its own."""
    client = cast("Any", Redis).from_url(url)
    calls = iter(range(10**9))
    return lambda: int(client.info("stats")["total_commands_processed"]) - next(calls)


@contextmanager
def of_sql() -> Generator[Callable[[], int]]:
    """Yield a function that says how many statements this process has sent to SQL databases."""
    sent = Counter[str]()

    def note(*_: object) -> None:
        sent["all"] += 1

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield lambda: sent["all"]
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def _spent(pid: int) -> float:
    """Return the processor time of a process and its children, also of those that have ended."""
    own = _ticks(pid)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return TICK * (sum(own) + sum(sum(_ticks(int(child))[:2]) for child in children))


def _ticks(pid: int) -> tuple[int, ...]:
    """Return the time of a process in the user's code and the kernel, and that of its ended children."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return (0, 0, 0, 0)
    fields = text.rpartition(")")[2].split()
    return tuple(int(field) for field in fields[11:15])
