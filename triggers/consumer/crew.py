"""The workers of one trigger: ``concurrency`` of them for each destination, and a sweeper of its joins."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta

from history.errors import HistoryUnavailableError
from history.shell import Lock, Shell
from triggers.consumer.gate import Gate
from triggers.consumer.ordering.workers import make_ordered_workers
from triggers.consumer.receivers import SharedReceiver
from triggers.consumer.worker import Worker
from triggers.pipeline.joining.joins import HOLD
from triggers.pipeline.joining.pipeline import JoiningPipeline
from triggers.pipeline.protocol import Pipeline
from triggers.providers.provider import Provider, capabilities_of

#: From this number of tasks they share receivers and calls; with fewer, turns cost less
#: (``pipeline.sharing``).
MANY = 32

_log = logging.getLogger(__name__)

#: How often to query the store for due joins.
INTERVAL = timedelta(seconds=1)

#: The longest interval while it does not answer.
LONGEST_INTERVAL = timedelta(seconds=30)

#: How often a process reports that its joins are alive.
KEEP_INTERVAL = HOLD / 3


def make_workers(
    name: str, gate: Gate, pipeline: Pipeline, *, provider: Provider, shell: Shell
) -> list[Worker]:
    """Return the workers of a trigger, named ``<name>-<trigger>-<number>``, like their receivers.

    From :data:`MANY` tasks on they share one receiver for each destination, and calls to the history.
    Together they run at most ``concurrency`` messages, whatever the number of destinations.
    """
    settings = gate.trigger.settings
    if settings.ordered:
        return make_ordered_workers(name, gate, pipeline, provider=provider, shell=shell)
    several = len(settings.destinations) > 1
    sweeper = sweeper_of(gate, pipeline, shell)
    turns: Lock = shell.semaphore(settings.concurrency) if several else nullcontext()
    indexes = [index for index in range(len(settings.destinations)) for _ in range(settings.concurrency)]

    shared = shared_receivers(name, gate, provider=provider, shell=shell)
    if shared:
        pipeline = pipeline.gathering()

    def goes_on() -> bool:
        return not shell.over.is_set() and not gate.closed

    return [
        Worker(
            name=f"{name}-{gate.trigger.name}-{number}",
            gate=gate,
            # With several destinations, the next message may have to wait for its turn.
            pipeline=pipeline.at(index) if several else pipeline if shared else pipeline.turning(goes_on),
            provider=provider,
            shell=shell,
            destination=settings.destinations[index],
            shared=shared[index] if shared else None,
            turns=turns,
            sweeper=sweeper,
        )
        for number, index in enumerate(indexes)
    ]


def shared_receivers(name: str, gate: Gate, *, provider: Provider, shell: Shell) -> list[SharedReceiver]:
    """Return the receivers that a trigger's workers share, one for each destination; none if they do not."""
    settings, serving = gate.trigger.settings, capabilities_of(provider).serving_many
    if serving is None or shell.blocking or settings.batch > 1 or settings.concurrency < MANY:
        return []
    return [
        SharedReceiver(
            serving, destination=destination, subscription=settings.name, name=f"{name}-{gate.trigger.name}-0"
        )
        for destination in settings.destinations
    ]


def count_receivers(workers: Sequence[Worker]) -> int:
    """Return how many receivers the workers will have open."""
    return len({id(worker if worker.shared is None else worker.shared) for worker in workers})


@dataclass(slots=True, kw_only=True)
class Sweeper:
    """Runs the due joins of one trigger of one consumer. Its workers share it, and ask one at a time.

    A join is due when it is complete and its worker has died, or at its time-out. The workers ask between
    their deliveries: after a stop the sweep ends, and while the trigger is suspended it does not begin.
    """

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
        """Run the due joins, if it is time to ask; ``begin`` is called if there are some."""
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
        """Report, if it is time, that the joins that run here are alive."""
        if now >= self._keep_due:
            self._keep_due = now + KEEP_INTERVAL.total_seconds()
            await self.pipeline.keep_alive()


def sweeper_of(gate: Gate, pipeline: Pipeline, shell: Shell) -> Sweeper | None:
    """Return the sweeper of a trigger's joins; None if there is nothing to sweep."""
    if isinstance(pipeline, JoiningPipeline):
        return Sweeper(gate=gate, pipeline=pipeline, shell=shell)
    return None
