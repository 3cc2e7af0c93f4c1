"""The costs of a dashboard page: processor time here and in the server, and statements.

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
    """Processor time of this process and of the server in seconds, and the number of statements."""

    here: float = 0.0
    server: float = 0.0
    statements: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        """Return the sum."""
        return Cost(self.here + other.here, self.server + other.server, self.statements + other.statements)


class Meter:
    """Reads the costs so far. ``pid`` is the server's process, and ``statements`` counts its statements."""

    def __init__(self, statements: Callable[[], int], pid: int | None = None) -> None:
        self._statements, self._pid = statements, pid

    def since(self, before: Cost) -> Cost:
        """Return the costs since another reading."""
        now = self.read()
        return Cost(now.here - before.here, now.server - before.server, now.statements - before.statements)

    def read(self) -> Cost:
        """Return all costs so far."""
        server = 0.0 if self._pid is None else _spent(self._pid)
        return Cost(time.process_time(), server, self._statements())


def of_redis(url: str) -> Callable[[], int]:
    """Return a function that counts the commands of a Redis, without the commands of the count."""
    client = cast("Any", Redis).from_url(url)
    calls = iter(range(10**9))
    return lambda: int(client.info("stats")["total_commands_processed"]) - next(calls)


@contextmanager
def of_sql() -> Generator[Callable[[], int]]:
    """Yield a function that counts the statements of this process to SQL databases."""
    sent = Counter[str]()

    def note(*_: object) -> None:
        sent["all"] += 1

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield lambda: sent["all"]
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def redis_seconds(client: Any) -> float:
    """Return the processor time of a Redis until now, in seconds."""
    used = client.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def redis_memory(client: Any) -> int:
    """Return the bytes of the data in Redis, without the bytes that wait for its append-only file."""
    info = client.info("memory")
    return int(info["used_memory"]) - int(info["mem_aof_buffer"])


def _spent(pid: int) -> float:
    """Return the processor time of a process and its children, including children that have ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    own, others = Path(f"/proc/{pid}/stat"), [Path(f"/proc/{child}/stat") for child in children]
    return seconds_in(own, dead=True) + sum(map(seconds_in, others))


def seconds_in(stat: Path, *, dead: bool = False) -> float:
    """Return the processor time in Linux's file about a process or thread, or zero if it has ended.

    With ``dead``, that of its ended children counts as well.
    """
    try:
        numbers = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, numbers[11 : 15 if dead else 13])) * TICK
