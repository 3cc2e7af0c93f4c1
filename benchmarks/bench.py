"""The tools of all rows: a private Redis, bare clients, idle triggers, and how long to measure."""

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import redis
from rich.progress import Progress

from benchmarks.measuring import Rounds
from benchmarks.result import Result
from benchmarks.servers import private_redis
from history.message import Message
from triggers import Trigger, trigger
from triggers.testing.redis_server import RedisServer

#: The time to live of entries, in seconds. The bare commands also use it.
TIME_TO_LIVE = 7 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to measure: rounds of so many messages, and the number of entries that counts as "many"."""

    rounds: int
    messages: int
    entries: int
    full: bool = False


QUICK = Effort(rounds=5, messages=100, entries=50_000)
DEFAULT = Effort(rounds=60, messages=200, entries=1_000_000)
FULL = Effort(rounds=200, messages=200, entries=1_000_000, full=True)


@dataclass(kw_only=True)
class Bench:
    """The tools that a row gets."""

    server: RedisServer
    effort: Effort
    progress: Progress
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def rounds(self, messages: int | None = None, *, most: int | None = None) -> Rounds:
        """Return the number of rounds. A row with long rounds passes its maximum."""
        count = self.effort.rounds if most is None else min(self.effort.rounds, most)
        return Rounds(count=count, messages=messages or self.effort.messages, progress=self.progress)

    def fewer(self, share: int) -> int:
        """Return the number of rounds if each takes as long as ``share`` usual rounds: at least three."""
        return max(3, self.effort.rounds // share)

    def bare(self) -> Any:
        """Return a redis-py client with default settings. As Any, because its types are partly unknown."""
        return redis.Redis(port=self.server.port)

    def idle_trigger(self, name: str) -> Trigger[[Message], None]:
        """Return a trigger with a service that does nothing."""

        @trigger("queue", name=name, history=self.server.url)
        def idle(message: Message) -> None:
            del message

        return idle

    def fresh(self, count: int) -> Sequence[Message]:
        """Make new messages."""
        return [
            Message(body=b"{}", uuid=f"5f0c6b1e-9f5d-4a70-{next(self.numbers):012}", delivery_count=1)
            for _ in range(count)
        ]


@dataclass(frozen=True, slots=True)
class Row:
    """One subject of measurement, with one or more lines. ``full`` rows are too long for a daily run."""

    name: str
    measure: Callable[[Bench], Iterable[Result]]
    full: bool = False


@contextmanager
def open_bench(effort: Effort, progress: Progress) -> Generator[Bench]:
    """Start a private Redis in a temporary folder, for the length of the block."""
    with private_redis() as server:
        yield Bench(server=server, effort=effort, progress=progress)
