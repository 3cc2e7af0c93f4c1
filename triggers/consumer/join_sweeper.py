"""Finding joins that are due: complete ones whose worker died, and those whose time-out is over.

The workers of a trigger do it between their deliveries, so that what they find is run where all is run:
after a stop it ends, and while the trigger is suspended it does not begin.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from history.errors import HistoryUnavailableError
from history.shell import Shell
from triggers.consumer.gate import Gate
from triggers.pipeline.joining.joins import HOLD
from triggers.pipeline.joining.pipeline import JoiningPipeline
from triggers.pipeline.parking.sweep import SWEEP_INTERVAL
from triggers.pipeline.protocol import Pipeline

_log = logging.getLogger(__name__)

#: How often the store is asked what is due.
INTERVAL = timedelta(seconds=1)

#: How often at least, while it does not answer.
LONGEST_INTERVAL = timedelta(seconds=30)

#: How often a process says that what it runs is alive.
KEEP_INTERVAL = HOLD / 3


@dataclass(slots=True, kw_only=True)
class Sweeper:
    """Runs what is due for one trigger of one consumer; its workers share it, and one at a time asks."""

    gate: Gate
    pipeline: JoiningPipeline
    shell: Shell
    _due: float = 0.0
    _pause: timedelta = field(default_factory=lambda: INTERVAL)
    _keep_due: float = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask."""
        return time.monotonic() >= self._due

    async def sweep(self, begin: Callable[[], None]) -> None:
        """Run what is due, if it is time to ask; ``begin`` is called when there is something."""
        if not self.is_due:
            return  # another worker has asked meanwhile
        self._due = time.monotonic() + self._pause.total_seconds()
        try:
            periods = await self.pipeline.take_due()
        except HistoryUnavailableError as error:
            self._pause = min(self._pause * 2, LONGEST_INTERVAL)
            name = self.gate.trigger.name
            _log.warning("trigger %s: joins that are due wait: %s", name, error, extra={"trigger": name})
            return
        self._pause = INTERVAL
        if periods:
            begin()
            self._due = 0.0  # there may be more
        for index, period in enumerate(periods):
            if self.shell.over.is_set() or (begun := self.gate.enter()) is None:
                await self.pipeline.release(periods[index:])
                return
            try:
                for outcome in await self.pipeline.settle_period(period):
                    self.gate.note(outcome)
            finally:
                self.gate.leave(begun)

    async def keep_alive(self, now: float) -> None:
        """Say, if it is time, that what runs here is alive."""
        if now >= self._keep_due:
            self._keep_due = now + KEEP_INTERVAL.total_seconds()
            await self.pipeline.keep_alive()


@dataclass(slots=True, kw_only=True)
class Purger:
    """Forgets who was the first of old activations, as often as the history forgets its expired entries."""

    gate: Gate
    purge: Callable[[], Awaitable[None]]
    _due: float = field(default_factory=lambda: time.monotonic() + SWEEP_INTERVAL.total_seconds())

    @property
    def is_due(self) -> bool:
        """Whether it is time to forget."""
        return time.monotonic() >= self._due

    async def sweep(self, begin: Callable[[], None]) -> None:  # noqa: ARG002
        """Forget, if it is time."""
        if self.is_due:
            self._due = time.monotonic() + SWEEP_INTERVAL.total_seconds()
            await self.purge()

    async def keep_alive(self, now: float) -> None:
        """Do nothing: nobody is presumed dead."""


def sweeper_of(gate: Gate, pipeline: Pipeline, shell: Shell) -> Sweeper | Purger | None:
    """Return what looks after a trigger's joins; None where there is nothing to look after."""
    if isinstance(pipeline, JoiningPipeline):
        return Sweeper(gate=gate, pipeline=pipeline, shell=shell)
    return None if pipeline.upkeep is None else Purger(gate=gate, purge=pipeline.upkeep)
