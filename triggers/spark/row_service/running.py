"""Concurrent rows of one task: in threads for a function, on an event loop for a coroutine function.

The rows are cut into units. Each unit goes through the trigger's pipeline separately: one claim, its services
in order, one completion. So the result of a row affects only the rows of its unit, and a row is settled only
after its own call. Rows of one uuid are in one unit, so that they never run concurrently.

If a service ends its process (for example by ``sys.exit()``), no further unit begins. The units that have
begun come to their end, as far as they can, and the task fails.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import ceil, inf
from threading import Lock
from typing import Any, Self, cast

from history.bridge import drive
from history.errors import ConfigurationError
from history.shell import Shell
from history.store import CLAIM_BATCH
from triggers.pipeline.execution import Execution, Pause, ServiceTransaction
from triggers.pipeline.pipeline import MessagePipeline
from triggers.pipeline.protocol import Pipeline
from triggers.pipeline.run import Run
from triggers.service.settings import Settings
from triggers.spark.batch.claims.verdicts import KEY
from triggers.spark.row_service.shipping import Shippable

#: A row as a Python value.
Values = dict[str, Any]

#: The result of a row, and the reason.
Result = tuple[str, str | None]

#: Takes one unit of rows through a pipeline.
Work = Callable[[Pipeline, Sequence[Values]], Coroutine[Any, Any, Sequence[Result]]]

#: Takes all units, and returns their results in the order of the units.
RunUnits = Callable[[Sequence[Sequence[Values]], Work], Sequence[Sequence[Result]]]

#: The least number of units for each concurrent worker, if there are enough rows: then the last units end at
#: about the same time.
UNITS_FOR_EACH = 4


def units_of(rows: Sequence[Values], settings: Settings) -> Sequence[Sequence[Values]]:
    """Cut rows into units that never divide the rows of a key; these are next to each other.

    All concurrent units together claim no more rows than a single unit would, unless ``batch`` asks for more.
    """
    concurrency = settings.concurrency
    if concurrency == 1:
        return [rows]
    size = min(CLAIM_BATCH // concurrency, ceil(len(rows) / (concurrency * UNITS_FOR_EACH)))
    size = max(size, settings.batch, 1)
    units: list[list[Values]] = []
    for row in rows:
        is_copy = bool(units) and row[KEY] is not None and row[KEY] == units[-1][-1][KEY]
        if not units or (len(units[-1]) >= size and not is_copy):
            units.append([])
        units[-1].append(row)
    return units


@contextmanager
def running(trigger: Shippable, per_second: float | None = None) -> Generator[RunUnits]:
    """Yield a function that runs units of rows, as many concurrently as the trigger's ``concurrency``.

    With ``per_second``, at most this many calls of the service begin in a second.
    """
    concurrency = trigger.settings.concurrency
    pace = None if per_second is None else CallPace(per_second)
    if trigger.is_async:
        with asyncio.Runner() as loop:
            try:
                yield lambda units, work: loop.run(_in_tasks(trigger, units, work, pace))
            finally:
                loop.run(trigger.aclose())
    elif concurrency == 1:
        yield lambda units, work: [drive(work(paced(trigger.pipeline(), pace), unit)) for unit in units]
    else:
        with ThreadPoolExecutor(concurrency, thread_name_prefix=f"doubtless-{trigger.name}") as threads:
            yield lambda units, work: _in_threads(trigger, units, work, threads, pace)


class _Units:
    """The units that have not begun yet, for workers in threads or tasks, and the results of the others."""

    def __init__(self, units: Sequence[Sequence[Values]], work: Work) -> None:
        self._waiting = deque(enumerate(units))
        self._work = work
        self._results: dict[int, Sequence[Result]] = {}

    async def take(self, pipeline: Pipeline) -> None:
        """Take one unit after the other through a pipeline, until none is left or a worker has failed."""
        while self._waiting:
            try:
                index, unit = self._waiting.popleft()
            except IndexError:  # another worker has taken the last unit
                return
            try:
                self._results[index] = await self._work(pipeline, unit)
            except BaseException:
                self._waiting.clear()
                raise

    def results(self) -> Sequence[Sequence[Result]]:
        """Return the results, in the order of the units."""
        return [self._results[index] for index in sorted(self._results)]


def check_pace(setting: str, value: Any) -> None:
    """Refuse a value that is not a number of calls per second.

    Raises:
        ConfigurationError: naming ``setting``.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        problem = f"must be calls per second, not {value!r:.60}"
        raise ConfigurationError(setting, problem, "use a number above 0, or leave it out for no limit")


@dataclass(slots=True)
class CallPace:
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
    pace: CallPace
    shell: Shell

    @property
    def takes_batches(self) -> bool:
        return self.inner.takes_batches

    def waiting(self, pause: Pause) -> Self:
        return replace(self, inner=self.inner.waiting(pause))

    async def run(self, run: Run, transaction: ServiceTransaction | None = None) -> None:
        await self.shell.sleep(self.pace.wait())
        await self.inner.run(run, transaction)

    async def run_together(self, runs: Sequence[Run], transaction: ServiceTransaction | None = None) -> None:
        await self.shell.sleep(self.pace.wait())
        await self.inner.run_together(runs, transaction)


def paced(pipeline: Pipeline, pace: CallPace | None) -> Pipeline:
    """Return a pipeline that calls its service at a pace; without a pace, unchanged."""
    if pace is None:
        return pipeline
    whole = cast("MessagePipeline", pipeline)
    return replace(whole, execution=_Paced(whole.execution, pace, whole.shell))


def _in_threads(
    trigger: Shippable,
    units: Sequence[Sequence[Values]],
    work: Work,
    threads: ThreadPoolExecutor,
    pace: CallPace | None,
) -> Sequence[Sequence[Result]]:
    left, pipeline = _Units(units, work), paced(trigger.pipeline(), pace)
    at_once = range(trigger.settings.concurrency)
    workers = [threads.submit(lambda: drive(left.take(pipeline))) for _ in at_once]
    wait(workers)
    for worker in workers:
        worker.result()
    return left.results()


async def _in_tasks(
    trigger: Shippable, units: Sequence[Sequence[Values]], work: Work, pace: CallPace | None
) -> Sequence[Sequence[Result]]:
    left, pipeline = _Units(units, work), paced(trigger.async_pipeline(), pace)
    at_once = range(trigger.settings.concurrency)
    workers = [asyncio.create_task(left.take(pipeline)) for _ in at_once]
    await asyncio.wait(workers)
    for worker in workers:
        worker.result()
    return left.results()
