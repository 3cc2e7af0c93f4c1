"""The processes of the crash test of order; the active process is killed or frozen several times."""

import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from tests.crash.helpers.fleet import Fleet
from tests.crash.victims.ordering_service import NAME
from tests.fixtures.histories import with_store
from triggers.consumer.ordering.active import ACTIVE_CONSUMER

#: More effects than a process may have while it is being stopped.
A_FEW = 10


@dataclass(slots=True, kw_only=True)
class OrderingFleet(Fleet):
    """Processes; only one of them receives."""

    service: str = "tests.crash.victims.ordering_service"
    is_done: Callable[[], bool]
    hits: int = 0

    def hit_until_done(self, due: list[int], hit: Callable[[Self, subprocess.Popen[bytes]], None]) -> None:
        """Hit the active process after each number of effects in ``due``, until all is done."""
        for effects in self.watch(lambda: not due and self.is_done()):
            if due and due[0] <= effects and (active := self._active()) is not None:
                del due[0]
                hit(self, active)
                self.hits += 1

    def freeze(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process until another is active and has had an effect; then let it go on.

        On a busy machine this checks late, and then only the messages of the stopped process may be left.
        """
        process.send_signal(signal.SIGSTOP)
        stopped_at = self.effects.count()
        self.wait_for(
            lambda: (
                self._active() not in {None, process}
                and (self.effects.count() > stopped_at + A_FEW or self.is_done())
            )
        )
        process.send_signal(signal.SIGCONT)

    def freeze_until_all_is_done(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process until others have done everything except its messages; then let it go on."""
        process.send_signal(signal.SIGSTOP)
        self.wait_for(self.is_done)
        process.send_signal(signal.SIGCONT)

    def _active(self) -> subprocess.Popen[bytes] | None:
        """Return the active process; None if it is dead, or if there is none."""
        entry = with_store(self.history, lambda store: store.lookup(NAME, [ACTIVE_CONSUMER]))[0]
        if entry is None or entry.owner is None:
            return None
        process = int(entry.owner.split(":")[1])
        return next((one for one in self.running if one.pid == process), None)
