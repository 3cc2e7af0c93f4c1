"""Processes on Kafka that are killed, join or leave, and the partitions that move meanwhile."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.helpers.books import KILLS, MESSAGES
from tests.crash.helpers.fleet import Fleet
from tests.crash.victims.sharing_service import shares_of

#: How many processes join while others are killed, and leave after they had some partitions.
GUESTS = max(1, KILLS // 2)

_SAID = re.compile(r"topic \S+: partitions ([\d, ]+) are (ours now|no longer ours)")


@dataclass(frozen=True, slots=True)
class Shares:
    """The partitions that each process got, as it wrote them down itself."""

    folder: Path

    def _said(self) -> Iterator[tuple[int, set[int], bool]]:
        """Yield process, partitions, and whether they came or went."""
        for process, words in shares_of(self.folder).lines():
            if (said := _SAID.match(words)) is not None:
                yield int(process), {int(one) for one in said[1].split(",")}, said[2] == "ours now"

    def of(self, *processes: subprocess.Popen[bytes]) -> set[int]:
        """Return the partitions of these processes."""
        had: set[tuple[int, int]] = set()
        for process, partitions, came in self._said():
            pairs = {(process, one) for one in partitions}
            had = had | pairs if came else had - pairs
        return {partition for process, partition in had if process in {one.pid for one in processes}}

    def owners(self) -> int:
        return sum(len(partitions) for _, partitions, came in self._said() if came)

    def given_up(self) -> int:
        return sum(len(partitions) for _, partitions, came in self._said() if not came)


def _spread(number: int) -> list[int]:
    """Return the numbers of effects after which an action is due, so many times."""
    return [MESSAGES * (one + 1) // (number + 2) for one in range(number)]


@dataclass(slots=True)
class Turmoil:
    """Kills owners of partitions, and lets guests have some: each of these owners gets a successor."""

    fleet: Fleet
    shares: Shares
    kills: list[int] = field(default_factory=lambda: _spread(KILLS))
    visits: list[int] = field(default_factory=lambda: _spread(GUESTS))
    guest: subprocess.Popen[bytes] | None = None

    def go_on(self, effects: int) -> None:
        """Do the due actions after this number of effects."""
        if self.kills and effects >= self.kills[0]:
            self._kill()
        if self.guest is not None:
            self._see_off(self.guest)
        elif self.visits and effects >= self.visits[0]:
            del self.visits[0]
            self.guest = self.fleet.join()

    def _kill(self) -> None:
        """Kill an owner; if there is none, wait for one."""
        for one in self._owners():
            self.fleet.kill(one)
            del self.kills[0]
            return

    def _owners(self) -> Iterable[subprocess.Popen[bytes]]:
        return [one for one in self.fleet.running if one is not self.guest and self.shares.of(one)]

    def _see_off(self, guest: subprocess.Popen[bytes]) -> None:
        if self.shares.of(guest):
            self.guest = None
            self.fleet.leave(guest)

    def is_over(self) -> bool:
        """Do the remaining actions, even after few effects; return whether all are done."""
        self.go_on(MESSAGES)
        return not (self.kills or self.visits or self.guest)
