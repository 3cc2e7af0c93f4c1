"""The ground of a chaos soak: servers of one kind, and the troubles that can happen to them."""

import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.chaos.remembering import Losses
from benchmarks.soak_fleet import Fleet

#: Does one thing to the servers, and returns what they lost.
Trouble = Callable[[Fleet, random.Random, Sequence[str]], Losses]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The promises that hold on a ground.

    - ``loses``: what its servers lose excuses a message that ran twice or is gone; without, nothing does.
    - ``announces_all``: consumers announce each failover, whatever it lost.
    - ``atomic``: messages, history and effects are in one database: none may be In Doubt.
    """

    loses: bool = True
    announces_all: bool = False
    atomic: bool = False


class Ground(Protocol):
    """Servers that hold a document history. An atomic ground also holds messages and effects."""

    @property
    def rules(self) -> Rules:
        """The promises that hold here."""
        ...

    @property
    def direct(self) -> str:
        """The URL of the server that has the history now, to count its entries."""
        ...

    @property
    def history(self) -> str:
        """The URL of the history."""
        ...

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        """The troubles that can happen here, by name."""
        ...


def stalled(pid: int, seconds: float) -> None:
    """Stop a server for a while."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def kill_a_consumer(fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
    """End a working process with SIGKILL, and start another in its place."""
    fleet.kill_one(chance)
    return Losses()


def stop_a_consumer(fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
    """Stop a working process for longer than its leases last."""
    fleet.stop_one(chance, chance.uniform(0.5, 3))
    return Losses()


def fork_a_consumer(fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
    """Let a working process fork. The child handles copies of its last messages."""
    fleet.signal_one(chance, signal.SIGUSR1)
    return Losses()


#: The troubles that can happen on every ground.
EVERYWHERE: Mapping[str, Trouble] = {
    "consumer killed": kill_a_consumer,
    "consumer stopped": stop_a_consumer,
    "consumer forked": fork_a_consumer,
}
