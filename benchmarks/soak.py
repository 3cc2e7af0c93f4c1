"""Soak: many messages, some sent twice, through processes killed at random; every effect is counted.

``python -m benchmarks.soak``, or ``make soak``. Exit code 1: an effect happened twice, or a message is lost.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, cast

import redis
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.servers import private_postgres, private_redis, scratch
from benchmarks.soak_effects import TableEffects, rows_left, waiting
from benchmarks.soak_fleet import Fleet
from benchmarks.soak_service import NAME
from history.bridge import drive
from history.entry import EntryOutcome
from history.message import Message
from history.opening import open_history
from history.store import HistoryStore
from triggers.pipeline.parking.sweep import close_settled
from triggers.providers.opening import open_provider

#: A silent process counts as dead after a second and a half. The second constant is for SQL-JMS.
FAST = "?claim_idle=1.5&reclaim_interval=0.2"
FAST_SQLJMS = "lease=1.5&poll_interval=0.2"

#: One message in so many has the uuid of another message.
RESENT_ONE_IN = 20

#: After so many seconds without an effect the soak gives up.
PATIENCE = 60.0


class Fate(StrEnum):
    """The end of one message."""

    EXECUTED = "executed once, completed"
    DUPLICATE = "duplicates"
    PARKED_WITH_EFFECT = "In Doubt, executed"
    PARKED_WITHOUT_EFFECT = "In Doubt, not executed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The end of each message. ``mistakes`` is empty if the promise was kept."""

    seed: int
    kills: int
    seconds: float
    fates: Counter[Fate]
    mistakes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Sent:
    uuid: str
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """One soak on a Redis server, with its files in ``folder``; ``history`` defaults to the same server.

    ``atomic`` services have their effects in the history, which must be in SQL; nothing may be In Doubt then.
    With ``sqljms`` the messages are there, too, and no row of any may be left over. ``service`` is the module
    of the processes, where it is not the usual one.
    """

    folder: Path
    redis_url: str
    messages: int = 10_000
    processes: int = 4
    kills: int = 20
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(2**32))
    history: str | None = None
    atomic: bool = False
    sqljms: bool = False
    service: str | None = None

    @property
    def _provider(self) -> str:
        """The URL of the messages' provider."""
        return (self.history or "") if self.sqljms else self.redis_url

    @property
    def _impatient(self) -> str:
        """The same URL with short timeouts, for consumers."""
        url = self._provider
        return f"{url}{'&' if '?' in url else '?'}{FAST_SQLJMS}" if self.sqljms else url + FAST

    def run(self, show: Callable[[int, int], None] = lambda _effects, _kills: None) -> Report:
        """Send, consume and kill, and account for every message.

        Raises:
            RuntimeError: nothing happened for a minute, or a process failed that nobody had killed.
        """
        begun, chance = time.monotonic(), random.Random(self.seed)  # noqa: S311  (to be repeated by its seed)
        sent = self._send(chance)
        effects = TableEffects(self.history or "") if self.atomic else None
        fleet = Fleet(
            atomic=effects,
            folder=self.folder,
            provider=self._impatient,
            history=self.history or self.redis_url,
            processes=self.processes,
            service=self.service,
        )
        with fleet:
            self._kill_at_random(fleet, chance, show)
            failed = [*fleet.drain(), *self._left_over()]
        lines = fleet.effects.lines()
        if effects is not None:
            effects.close()
        return Report(
            seed=self.seed,
            kills=fleet.kills,
            seconds=time.monotonic() - begun,
            fates=(fates := self._judge(sent, lines)),
            mistakes=tuple(_mistakes(lines, fates, failed, atomic=self.atomic)),
        )

    def _send(self, chance: random.Random) -> Sequence[_Sent]:
        sent = send(self._provider, shuffled_uuids(chance, self.seed, self.messages))
        return [_Sent(uuid, name) for name, uuid in sent.items()]

    def _kill_at_random(self, fleet: Fleet, chance: random.Random, show: Callable[[int, int], None]) -> None:
        """Kill after certain numbers of effects, so that the machine's speed does not matter."""
        due = sorted(chance.sample(range(1, self.messages * 9 // 10), self.kills))
        progress = Progressing(fleet)
        with drained_at(self._provider) as is_drained:
            while due or not is_drained():
                progress.look()
                while due and due[0] <= progress.effects:
                    del due[0]
                    time.sleep(chance.uniform(0, 0.02))
                    fleet.kill_one(chance)
                fleet.look_after()
                show(progress.effects, fleet.kills)
                time.sleep(0.02)

    def _left_over(self) -> Sequence[str]:
        """Return the mistakes for rows of SQL-JMS that should be gone."""
        if not self.sqljms:
            return []
        left = rows_left(self._provider)
        return [f"{count} rows are left in {table}" for table, count in left.items() if count]

    def _judge(self, sent: Sequence[_Sent], lines: Sequence[tuple[str, ...]]) -> Counter[Fate]:
        store = open_history(self.history or self.redis_url)
        drive(close_settled(NAME, store, store.parking))
        # Copies of one document are parked once.
        parked = {message.uuid for message in drive(store.parking.list(trigger=NAME, limit=self.messages))}
        # An effect of another run must not turn a message of this run into a duplicate.
        completed = _completed(store, sorted({uuid for uuid, _, _ in lines}))
        drive(store.close())
        executed = {message_id for _, message_id, _ in lines}

        def fate(message: _Sent) -> Fate:
            has_effect = message.message_id in executed
            if message.uuid in parked and message.uuid not in completed:
                return Fate.PARKED_WITH_EFFECT if has_effect else Fate.PARKED_WITHOUT_EFFECT
            if message.uuid not in completed:
                return Fate.LOST
            return Fate.EXECUTED if has_effect else Fate.DUPLICATE

        return Counter(fate(message) for message in sent)


def _completed(store: HistoryStore, uuids: Sequence[str]) -> set[str]:
    entries = drive(store.lookup(NAME, uuids))
    return {
        uuid
        for uuid, entry in zip(uuids, entries, strict=True)
        if entry is not None and entry.outcome is EntryOutcome.OK
    }


def _mistakes(
    lines: Sequence[tuple[str, ...]], fates: Counter[Fate], failed: Sequence[str], *, atomic: bool
) -> Iterator[str]:
    twice = [uuid for uuid, times in Counter(fields[0] for fields in lines).items() if times > 1]
    if twice:
        yield f"{len(twice)} uuids had more than one effect, such as {twice[:5]}"
    if fates[Fate.LOST]:
        yield f"{fates[Fate.LOST]} messages are lost"
    in_doubt = fates[Fate.PARKED_WITH_EFFECT] + fates[Fate.PARKED_WITHOUT_EFFECT]
    if atomic and in_doubt:
        yield f"{in_doubt} messages of an atomic trigger are In Doubt"
    yield from failed


def shuffled_uuids(chance: random.Random, seed: int, messages: int) -> list[str]:
    """Return the uuids of a soak: one in so many is there twice.

    Named by the seed: a history that is used again remembers the uuids of other runs.
    """
    uuids = [f"{seed:x}-{number}" for number in range(messages - messages // RESENT_ONE_IN)]
    uuids += chance.choices(uuids, k=messages - len(uuids))
    chance.shuffle(uuids)
    return uuids


def send(url: str, uuids: Sequence[str]) -> Mapping[str, str]:
    """Send a message for each uuid. Return the uuids by the message ids of the provider."""
    provider = open_provider(url)
    names = drive(provider.send(NAME, [Message(uuid=uuid, body="soak") for uuid in uuids]))
    drive(provider.close())
    return dict(zip(names, uuids, strict=True))


@contextmanager
def drained_at(url: str) -> Generator[Callable[[], bool]]:
    """Yield a function that says whether all messages of a provider were read and acknowledged."""
    if not url.startswith("redis"):
        yield lambda: not waiting(url)
        return
    with cast("Any", redis.Redis).from_url(url) as client:
        yield partial(_is_drained, client)


def _is_drained(client: Any) -> bool:
    groups = client.xinfo_groups(NAME)
    last = client.xinfo_stream(NAME)["last-generated-id"]
    return bool(groups) and groups[0]["pending"] == 0 and groups[0]["last-delivered-id"] == last


@dataclass(slots=True)
class Progressing:
    """The number of effects of a fleet, and the time of its last change."""

    fleet: Fleet
    effects: int = 0
    changed: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        """Count the effects.

        Raises:
            RuntimeError: nothing has happened for a minute.
        """
        if (seen := self.fleet.effects.count()) != self.effects:
            self.effects, self.changed = seen, time.monotonic()
        elif time.monotonic() - self.changed > PATIENCE:
            raise RuntimeError(f"nothing has happened for a minute:\n{self.fleet.log_tail()}")


def main(
    messages: int = typer.Option(10_000, min=100, help="How many to send; one in 20 is a copy."),
    processes: int = typer.Option(4, min=1, help="How many consumers, with four threads each."),
    kills: int = typer.Option(20, min=0, help="How many of them to kill, at random moments."),
    seed: int | None = typer.Option(None, help="Repeats another run's choices."),
    history: str | None = typer.Option(None, help="A history elsewhere: sqlite:///..., postgresql://..."),
    atomic: bool = typer.Option(False, help="Effects and history in one transaction of PostgreSQL."),  # noqa: FBT001, FBT003
    sqljms: bool = typer.Option(False, help="The messages, too."),  # noqa: FBT001, FBT003
) -> None:
    """Kill consumers at random, and account for every message."""
    console = Console()
    bar = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with (
        scratch() as folder,
        private_redis() as server,
        _database(atomic=(atomic or sqljms) and history is None) as database,
        Progress(*bar, console=console) as progress,
    ):
        options: dict[str, Any] = {} if seed is None else {"seed": seed}
        soak = Soak(
            folder=folder,
            redis_url=server.url,
            messages=messages,
            processes=processes,
            kills=kills,
            history=history or database,
            atomic=atomic or sqljms,
            sqljms=sqljms,
            **options,
        )
        console.print(f"seed {soak.seed}")
        task = progress.add_task("0 kills", total=messages - messages // RESENT_ONE_IN)
        report = soak.run(
            lambda done, dead: progress.update(task, completed=done, description=f"{dead} kills")
        )
    console.print(_table(report, messages))
    for mistake in report.mistakes:
        console.print(f"[red]{mistake}")
    sys.exit(1 if report.mistakes else 0)


@contextmanager
def _database(*, atomic: bool) -> Generator[str | None]:
    """Start a PostgreSQL if an atomic soak has none. Its user cannot reach our folders."""
    if not atomic:
        yield None
        return
    with private_postgres() as server:
        yield server.url


def _table(report: Report, messages: int) -> Table:
    table = Table(title=f"{messages} messages, {report.kills} kills, {report.seconds:.1f} s")
    table.add_column("what became of them")
    table.add_column("messages", justify="right")
    for fate in Fate:
        table.add_row(fate, str(report.fates[fate]))
    return table


if __name__ == "__main__":
    typer.run(main)
