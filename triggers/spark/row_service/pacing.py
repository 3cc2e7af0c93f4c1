"""A limit of service calls per second, in each task."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from threading import Lock
from typing import Any, Self, cast

from history.errors import ConfigurationError
from history.shell import Shell
from triggers.pipeline.execution import Execution, Pause, Transaction
from triggers.pipeline.pipeline import MessagePipeline
from triggers.pipeline.protocol import Pipeline
from triggers.pipeline.run import Run


def check_pace(setting: str, value: Any) -> None:
    """Refuse a value that is not a number of calls per second.

    Raises:
        ConfigurationError: naming ``setting``.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        problem = f"must be calls per second, not {value!r:.60}"
        raise ConfigurationError(setting, problem, "use a number above 0, or leave it out for no limit")


@dataclass(slots=True)
class Pace:
    """Gives out the moments at which calls may begin, evenly; for all threads or tasks of a Spark task."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    _next: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def wait(self) -> float:
        """Return how many seconds the next call has to wait."""
        with self._lock:
            now = self.clock()
            begins = max(now, self._next)
            self._next = begins + 1 / self.per_second
            return begins - now


@dataclass(frozen=True, slots=True)
class _Paced:
    """An execution with calls that wait for their moment. Their leases are renewed meanwhile."""

    inner: Execution
    pace: Pace
    shell: Shell

    @property
    def takes_batches(self) -> bool:
        return self.inner.takes_batches

    def waiting(self, pause: Pause) -> Self:
        return replace(self, inner=self.inner.waiting(pause))

    async def run(self, run: Run, transaction: Transaction | None = None) -> None:
        await self.shell.sleep(self.pace.wait())
        await self.inner.run(run, transaction)

    async def run_together(self, runs: Sequence[Run], transaction: Transaction | None = None) -> None:
        await self.shell.sleep(self.pace.wait())
        await self.inner.run_together(runs, transaction)


def paced(pipeline: Pipeline, pace: Pace | None) -> Pipeline:
    """Return a pipeline that calls its service at a pace; without a pace, unchanged."""
    if pace is None:
        return pipeline
    whole = cast("MessagePipeline", pipeline)
    return replace(whole, execution=_Paced(whole.execution, pace, whole.shell))
