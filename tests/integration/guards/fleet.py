"""The workers of a framework, the orders that they receive, and their kills."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from history.bridge import drive
from history.opening import open_history
from tests.fixtures.ledger import Ledger
from tests.fixtures.waiting import eventually

ROOT = Path(__file__).parents[3]

APPLICATIONS = "tests.integration.guards.hosts"


@dataclass(frozen=True, slots=True)
class Host:
    """The commands of a framework. ``guard`` is the name of its task's guard, and {queue} is the queue."""

    name: str
    worker: tuple[str, ...]
    sender: tuple[str, ...]
    guard: str = "book"

    def __str__(self) -> str:
        return self.name


CELERY = Host(
    "celery",
    (
        *("-m", "celery", "-A", f"{APPLICATIONS}.celery_app", "worker", "--concurrency", "3"),
        *("--without-gossip", "--without-mingle"),
    ),
    ("-m", f"{APPLICATIONS}.celery_app"),
)
DRAMATIQ = Host(
    "dramatiq",
    ("-m", "dramatiq", f"{APPLICATIONS}.dramatiq_app", "--processes", "1", "--threads", "3"),
    ("-m", f"{APPLICATIONS}.dramatiq_app"),
)
TASKIQ = Host(
    "taskiq",
    (
        *("-m", "taskiq", "worker", f"{APPLICATIONS}.taskiq_app:broker", "--workers", "1"),
        *("--max-async-tasks", "3"),
    ),
    ("-m", f"{APPLICATIONS}.taskiq_app"),
)
FASTSTREAM = Host(
    "faststream",
    ("-m", f"{APPLICATIONS}.faststream_app"),
    ("-m", f"{APPLICATIONS}.faststream_app", "send"),
    "book@{queue}",
)

HOSTS = (CELERY, DRAMATIQ, TASKIQ, FASTSTREAM)


@dataclass(frozen=True, slots=True)
class Account:
    """The state of the orders: some have a known effect, and some are parked for a person."""

    done: frozenset[str]
    parked: frozenset[str]


class Fleet:
    """The workers of an application."""

    def __init__(self, host: Host, folder: Path, broker: str, history: str, *, guarded: bool = True) -> None:
        self.effects = Ledger(folder / "effects")
        self.log = folder / "workers.log"
        self._host = host
        self._history = history
        self._workers: list[subprocess.Popen[bytes]] = []
        queue = f"{host.name}-{uuid4().hex}"
        self._guard = host.guard.format(queue=queue)
        self._environment = {
            **os.environ,
            "BROKER": broker,
            "HISTORY": history,
            "QUEUE": queue,
            "EFFECTS": str(self.effects.file),
            "GUARDED": "yes" if guarded else "no",
        }

    def send(self, orders: Sequence[str]) -> None:
        subprocess.run(
            [sys.executable, *self._host.sender],
            input="".join(f"{order}\n" for order in orders),
            cwd=ROOT,
            env=self._environment,
            text=True,
            check=True,
        )

    def start(self) -> None:
        """Start a worker in its own process group, so that a kill ends it as a whole, like a container."""
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, *self._host.worker],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._workers.append(worker)

    def kill(self) -> None:
        """Kill the oldest worker with its children, and start another."""
        victim = self._workers.pop(0)
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
        self.start()

    def kill_while_they_work(self, kills: int, total: int, chance: random.Random) -> None:
        """Kill a worker at several moments, spread over the effects."""
        for due in sorted(chance.sample(range(1, total * 3 // 4), kills)):
            eventually(lambda due=due: self.effects.count() >= due)  # type: ignore[misc]
            self.kill()

    def end(self) -> None:
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()

    def account(self, orders: Sequence[str]) -> Account | None:
        """Wait until all orders are done or parked, and return their states."""
        known = sorted(set(orders))
        store = open_history(self._history)
        entries = drive(store.lookup(self._guard, known))
        parked = frozenset(one.uuid for one in drive(store.parking.list(trigger=self._guard)) if one.uuid)
        drive(store.close())
        done = frozenset(key for key, entry in zip(known, entries, strict=True) if entry and entry.outcome)
        return Account(done, parked) if done | parked == frozenset(known) else None
