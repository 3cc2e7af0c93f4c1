"""The processes of the crash test of joins."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.crash.helpers.fleet import Fleet


@dataclass(slots=True, kw_only=True)
class JoiningFleet(Fleet):
    """Processes that are killed at random."""

    service: str = "tests.crash.victims.joining_service"
    kills: int = 0

    def kill_until(self, is_done: Callable[[], bool], due: list[int], chance: random.Random) -> None:
        """Kill after each number of effects in ``due``, until all kills and all work are done."""
        for effects in self.watch(lambda: not due and is_done()):
            while due and due[0] <= effects:
                del due[0]
                time.sleep(chance.uniform(0, 0.02))
                at_work = {words[-1] for words in self.effects.lines()}
                candidates = [one for one in self.running if str(one.pid) in at_work]
                self.kill(chance.choice(candidates or self.running))
                self.kills += 1
