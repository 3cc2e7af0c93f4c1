"""One run of a script over micro-batches: drivers, their deaths, and the batches that Spark repeats."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from history.bridge import drive
from triggers.spark.batch.batch import BatchStep
from triggers.spark.batch_info import BatchInfo, given_info
from triggers.spark.connections import history_at
from triggers.spark.decorator import ForeachBatch
from triggers.testing.simulator.course import FaultChoice, SimulatedDeath
from triggers.testing.simulator.process_memory import ProcessMemory
from triggers.testing.simulator.script import Fault, Point, traced

#: How many runs of batches a script has at most; a batch that is not completed then is unfinished.
MOST_RUNS = 30

#: One row, by its columns.
Row = Mapping[str, Any]

#: The name of a step of a batch after "the process dies after".
STEPS: Mapping[BatchStep, str] = {
    BatchStep.BEGUN: "the batch is begun",
    BatchStep.CLAIMED: "its rows are claimed",
    BatchStep.KEPT_ASIDE: "rows are parked",
    BatchStep.ENTERED: "the ledger says that the function is entered",
    BatchStep.RUN: "the function has run",
    BatchStep.COMPLETED: "the batch is completed",
    BatchStep.NOTED: "all of it, but Spark has not noted the batch",
}

#: The head of the table that shows a script.
HEAD = ("step", "batch", "run", "rows", "new", "duplicate", "in doubt", "rejected", "answer", "what happened")


@dataclass(slots=True)
class BatchRules:
    """The common settings of the runs of one simulation."""

    subject: ForeachBatch
    frame: Callable[[Sequence[Row]], Any]
    count: Callable[[], Counter[Hashable]]
    memory: ProcessMemory
    database: Path
    deliveries: int
    observes: bool

    @property
    def history(self) -> str:
        """The URL of the history that all runs use, one after the other."""
        return f"sqlite:///{self.database}"


@dataclass(slots=True)
class BatchLine:
    """One run of one batch, as a line of the table."""

    number: int
    batch: int
    attempt: int
    rows: int
    counts: Mapping[str, int] | None = None
    answer: str = "none"
    faults: tuple[str, ...] = ()

    @property
    def row(self) -> int | None:
        """Return no row of the decision table: a row is about one message, and this line about many."""
        return None

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells below ``HEAD``."""
        counted = self.counts or {}
        counted_cells = (str(counted[name]) if counted else "-" for name in _COUNTED)
        own = (str(self.number), str(self.batch), str(self.attempt), str(self.rows))
        return (*own, *counted_cells, self.answer, "; ".join(self.faults))


_COUNTED = ("new", "duplicate", "in_doubt", "rejected")


def _forget_everything(database: Path) -> None:
    """Empty the history of the run before, which the executors hold open."""
    with closing(sqlite3.connect(database)) as connection, connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in tables:
            if name != "doubtless_meta":  # the version of the tables, and the fences, which never go back
                connection.execute(f"DELETE FROM {name}")  # noqa: S608  (our own tables)


class BatchCourse:
    """One run of a script. It is made, run once, and then read."""

    def __init__(self, rules: BatchRules, choice: FaultChoice, batches: Sequence[Sequence[Row]]) -> None:
        self.rules = rules
        self.choice = choice
        self.points: list[Point] = []
        self.lines: list[BatchLine] = []
        self.warnings: list[str] = []
        self.parked: set[str] = set()
        self.unfinished: list[Row] = []
        self.failure: Exception | None = None
        self._waiting = [list(batch) for batch in batches]
        self._driver: ForeachBatch | None = None
        self._dead = False
        self._tired = False
        self._inside = False
        self._at_death: Counter[Hashable] | None = None

    def run(self) -> None:
        """Hand over one batch after the other, each until it is completed, or too often."""
        _forget_everything(self.rules.database)
        batch = 0
        while self._waiting:
            self._hand_over(batch, self._waiting[0])
            if self.unfinished:
                break
            del self._waiting[0]
            batch += 1
        self.parked = {parked.uuid or "" for parked in drive(history_at(self.rules.history).parking.list())}

    def _hand_over(self, batch: int, rows: Sequence[Row]) -> None:
        attempt = 0
        while not self._is_done(batch, rows, attempt := attempt + 1):
            self._driver = None
            if self.choice.script.memory == "dies":
                self.rules.memory.die()
            else:
                self.rules.memory.survive()
            if len(self.lines) >= MOST_RUNS:
                self.unfinished = [row for waiting in self._waiting for row in waiting]
                return

    def _is_done(self, batch: int, rows: Sequence[Row], attempt: int) -> bool:
        """Hand a batch to a driver once; False if it died or failed, so that Spark repeats the batch."""
        line = BatchLine(len(self.lines) + 1, batch, attempt, len(rows))
        self.lines.append(line)
        self._dead, self._tired = False, attempt > self.rules.deliveries
        self._driver = driver = self._driver or self._new_driver()
        try:
            driver(self.rules.frame(rows), batch)
            again = self.come_by(f"batch {batch}", Fault.AGAIN)
        except SimulatedDeath:
            line.answer = "driver died"
            return False
        except Exception as error:  # noqa: BLE001  (any error: the query ends, and is started again)
            line.answer = "query failed"
            line.faults += (f"{type(error).__name__}: {error}".partition("\n")[0][:120],)
            self.failure = error
            return False
        line.answer, line.counts = "completed", driver.reports[-1].counts
        if again:
            self._waiting[1:2] = [[*rows, *(self._waiting[1] if len(self._waiting) > 1 else ())]]
        return True

    def _new_driver(self) -> ForeachBatch:
        """Return the user's function as a driver has it that has just been started."""
        settings = self.rules.subject.settings
        retry = replace(settings.trigger.retry, interval=timedelta(0))
        called = given_info(self.rules.subject.function)
        file = getattr(getattr(self.rules.subject.function, "__code__", None), "co_filename", "")

        def function(new: Any, batch: BatchInfo) -> None:
            self._invoke(lambda: called(new, batch), file)

        function.__module__ = self.rules.subject.__module__
        settings = replace(
            settings,
            trigger=replace(settings.trigger, retry=retry),
            history=self.rules.history,
            parking=None,
            query=settings.query or "simulated",
        )
        driver = ForeachBatch(function, settings)
        driver.observe = self._reach
        return driver

    def _reach(self, step: BatchStep) -> None:
        if self.come_by(STEPS[step], Fault.DIE_AFTER) is Fault.DIE_AFTER:
            self.die()

    def _invoke(self, call: Callable[[], object], file: str) -> None:
        """Call the user's function, with a point before each of its lines."""
        try:
            with traced(file, self._line):
                self._inside = True
                call()
        finally:
            self._inside = False
            self._look_at_death()

    def _line(self, step: str) -> None:
        """Die between two lines, only in the first batch: a run takes a second."""
        if self.lines[-1].batch == 0:
            self.come_by(step, Fault.DIE)

    def _look_at_death(self) -> None:
        """Notice what a handler of the function did after the driver had died.

        Raises:
            SimulatedDeath: the driver has died, whatever the function did with that.
        """
        if not self._dead:
            return
        before, self._at_death = self._at_death, None
        if before is not None and before != self.rules.count():
            self.warnings.append(
                "a finally or except BaseException of the function had an effect after the driver had died, "
                "which a real death would not let happen"
            )
        raise SimulatedDeath

    # The methods that the effects of a run call.

    def come_by(self, step: str, *faults: Fault) -> Fault | None:
        """Reach a point; return what goes wrong there.

        Raises:
            SimulatedDeath: the driver dies here, or died before and was kept alive by a handler.
        """
        if self._dead:
            raise SimulatedDeath
        point = Point(len(self.points), step, () if self._tired else tuple(faults))
        self.points.append(point)
        fault = self.choice.at(point)
        if fault is None or fault not in faults:
            return None
        self.lines[-1].faults += (fault.sentence.format(step),)
        if fault is Fault.DIE:
            self.die()
        return fault

    def die(self) -> None:
        """End the driver.

        Raises:
            SimulatedDeath: always.
        """
        self._dead = True
        if self.rules.observes and self._inside:
            self._at_death = self.rules.count()
        raise SimulatedDeath

    def before_effect(self, step: str, faults: Iterable[Fault]) -> Fault | None:
        """Reach the point of an effect; raise if the driver dies, and return what else goes wrong."""
        return self.come_by(step, *(fault for fault in faults if fault not in {Fault.COPY, Fault.PAUSE}))
