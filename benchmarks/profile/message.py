"""Where the time of one message on Redis goes, as a table of its parts.

Each layer is called by itself, and does what the layer below it does and more: an empty command, the scripts
sent and answered, the history, ``handle()``. They take turns in rounds, and a part is the difference of two
layers. The quickest round of each layer counts, without the time that other programs take.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from benchmarks.bench import DEFAULT, QUICK, Bench, open_bench
from benchmarks.measuring import Pass
from benchmarks.profile.shares import shares_of
from benchmarks.rows import floors
from history.bridge import drive
from history.entry import EntryOutcome, Settlement
from history.message import Message, Uuid
from history.redis import RedisHistory
from history.redis.connection.client import RedisClient
from history.redis.connection.probe import pool_of
from history.redis.connection.wires import Wires
from history.store.owners import owner_token

LEASE, LIFE = timedelta(seconds=30), timedelta(days=7)

#: A command that does nothing, packed.
EMPTY = b"*1\r\n$4\r\nPING\r\n"

#: The measurements of the layers below ``handle()`` use this trigger's history.
NAME = "profiled"


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of message: how to make it, its calls to the history, and the same work by hand."""

    name: str
    make: Callable[[Bench, int], Sequence[Message]]
    ask: Callable[[RedisHistory, Message], None]
    by_hand: Callable[[Any, Message], None]
    trips: int


def _claim_and_complete(store: RedisHistory, message: Message) -> None:
    uuid, owner = Uuid(message.uuid or ""), owner_token()
    (claim,) = drive(store.claim(NAME, [uuid], owner, LEASE, time_to_live=LIFE))
    drive(store.settle(NAME, [Settlement(uuid, claim.fence, EntryOutcome.OK, owner)]))


def _claim(store: RedisHistory, message: Message) -> None:
    drive(store.claim(NAME, [message.uuid or ""], owner_token(), LEASE, time_to_live=LIFE))


def _fresh(bench: Bench, count: int) -> Sequence[Message]:
    return bench.fresh(count)


def _seen(bench: Bench, count: int) -> Sequence[Message]:
    return floors.seen_by(bench, bench.idle_trigger(NAME))(count)


def _note_both(client: Any, message: Message) -> None:
    floors.claim(client, message)
    floors.complete(client, message)


SUBJECTS = (
    Subject("a new message", _fresh, _claim_and_complete, _note_both, 2),
    Subject("a duplicate", _seen, _claim, floors.claim, 1),
)


@dataclass(frozen=True, slots=True)
class Parts:
    """Microseconds of one message: each part, and the same work by hand."""

    parts: Mapping[str, float]
    by_hand: float

    @property
    def whole(self) -> float:
        """Return the time of ``handle()``."""
        return sum(self.parts.values())


class TimedWires(Wires):
    """Connections that measure the round trips of scripts, in seconds."""

    seconds = 0.0

    async def ask(self, command: bytes, server: object = None) -> Any:
        """Ask, and note the duration."""
        begin = time.perf_counter()
        try:
            return await super().ask(command, server)
        finally:
            self.seconds += time.perf_counter() - begin


def measure(bench: Bench, subject: Subject) -> Parts:
    """Let the layers take turns, and return the differences between them."""
    bare, idle, client = bench.bare(), bench.idle_trigger(NAME), RedisClient.from_url(bench.server.url)
    client.wires = wires = TimedWires(pool_of(client.client), waits=False)
    store, under_way = RedisHistory(client), list[float]()
    empty: Any = bench.bare().connection_pool.make_connection()

    def ping(messages: Sequence[Message]) -> None:
        for _ in range(subject.trips * len(messages)):
            empty.send_packed_command((EMPTY,))
            empty.read_response()

    def history(messages: Sequence[Message]) -> None:
        before = wires.seconds
        for message in messages:
            subject.ask(store, message)
        under_way.append((wires.seconds - before) / len(messages))

    def by_hand(messages: Sequence[Message]) -> None:
        for message in messages:
            subject.by_hand(bare, message)

    passes: dict[str, Pass[Message]] = {
        "handle": lambda messages: [idle.handle(message) for message in messages],
        "history": history,
        "ping": ping,
        "by hand": by_hand,
    }
    times = bench.rounds().run(subject.name, lambda count: subject.make(bench, count), passes)
    drive(store.close())
    best = {name: min(rounds) * 1e6 for name, rounds in times.rounds.items()}
    scripts = min(under_way) * 1e6
    return Parts(
        {
            "round trips of an empty command": best["ping"],
            "the scripts, longer to send and carried out by Redis": scripts - best["ping"],
            "the history's Python: digest, packing, reading": best["history"] - scripts,
            "the pipeline's Python: claim, table, run, outcome": best["handle"] - best["history"],
        },
        best["by hand"],
    )


def show(subject: Subject, measured: Parts, console: Console) -> None:
    """Print the parts with their shares."""
    table = shares_of(f"where the time of {subject.name} goes", measured.parts)
    table.add_section()
    table.add_row("handle()", f"{measured.whole:.0f}", "100%")
    table.add_row(
        "by hand, with redis-py alone",
        f"{measured.by_hand:.0f}",
        f"{measured.by_hand / measured.whole:.0%}",
    )
    console.print(table)


def main(*, quick: Annotated[bool, typer.Option(help="Few rounds: does it run?")] = False) -> None:
    """Print the parts of the time of a new message and of a duplicate."""
    for subject in SUBJECTS:
        with (
            Progress(console=Console(stderr=True), transient=True) as progress,
            open_bench(QUICK if quick else DEFAULT, progress) as bench,
        ):
            show(subject, measure(bench, subject), Console())
