"""Run a ``foreach_batch`` function with a driver that dies at each step, and count its effects."""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from history.errors import ConfigurationError
from history.support.paging import pieces_of
from history.support.rendering import shown, text_of
from triggers.service.checking import check_whole
from triggers.spark import ForeachBatch
from triggers.spark.connections import close_history
from triggers.spark.rows.messages import NoIdentityError, identity_of_row
from triggers.testing.simulator import exactly_once as simulations
from triggers.testing.simulator.batches.course import HEAD, BatchCourse, BatchRules, Row
from triggers.testing.simulator.course import FaultChoice
from triggers.testing.simulator.effects import UNNAMED, Effects, EffectsBeginning
from triggers.testing.simulator.process_memory import memory_of
from triggers.testing.simulator.report import Finding, Report, Search, remember
from triggers.testing.simulator.script import FaultScript, Memory, Point
from triggers.testing.simulator.surroundings import quiet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: How many scripts of two and more faults are run at most; the seed draws them.
MOST_SCRIPTS = 60


def exactly_once_batch(  # noqa: PLR0913  (the options of a test, each by its name)
    function: Any,
    rows: "Sequence[Mapping[str, Any]] | DataFrame",
    *,
    effects: Any,
    reset: Callable[[], object] | None = None,
    crashes: int = 1,
    deliveries: int = 4,
    batch: int | None = None,
    keep: Sequence[object] = (),
    spark: "SparkSession | None" = None,
    seed: int | None = None,
    script: str | None = None,
) -> Report:
    """Run a ``foreach_batch`` function through every script of few faults, and count its effects.

    The function runs as it is, with its settings, resolver and sink, in a local Spark, over a document
    history in a separate file. In each script the driver dies behind a step of
    :mod:`triggers.spark.decorator`, before a line of the function in the first batch, or before or after
    an effect; an effect fails; or the source gives rows once more. Spark then hands the batch over again, to
    a new driver. A script takes a second or two, and all scripts of one fault about a minute.

    Args:
        function: made by ``@foreach_batch``.
        rows: the rows of the stream, as mappings or as a DataFrame; some two to six are enough.
        effects: counts the effects: ``simulator.effects()`` and lists if the function has them on the driver;
            else a function that returns how many there are, how often each, or all of them.
        reset: brings everything outside of the function back to where it was before the first batch.
        crashes: how many faults are tried in every combination, up to a limit from which the seed draws.
        deliveries: how often a batch is handed over before nothing goes wrong with it any more.
        batch: how many rows come in one batch; by default they come in two.
        keep: containers that represent something which outlives the driver, such as a database.
        spark: the session; by default the active session, or a new local session, which stays open.
        seed: the seed of random choices.
        script: run only this script, in the form that a report shows.

    Raises:
        ConfigurationError: the function cannot be simulated, or an argument makes no sense.
        MissingExtraError: ``pip install 'doubtless[spark]'``.
    """
    check_whole("crashes", crashes, 0)
    check_whole("deliveries", deliveries, 1)
    if batch is not None:
        check_whole("batch", batch, 1)
    if not isinstance(function, ForeachBatch):
        raise ConfigurationError(
            "function",
            f"{function!r:.60} was not made by @foreach_batch",
            "decorate it; test a trigger itself with exactly_once, before its foreach_batch",
        )
    parts, frame = _rows_of(rows, spark)
    batches = list(pieces_of(parts, batch or (len(parts) + 1) // 2))

    def run(wanted: str | None) -> Report:
        chance = simulations.default_seed if seed is None else seed
        with tempfile.TemporaryDirectory(prefix="doubtless-") as folder, quiet():
            beginning = EffectsBeginning(effects, reset)
            world = (effects, beginning, keep)
            rules = _rules(function, frame, world, Path(folder) / "history.db", deliveries)
            ledger = effects if isinstance(effects, Effects) else None
            simulation = _BatchSimulation(
                function.name, beginning, ledger, chance, rules=rules, batches=batches
            )
            try:
                simulation.learn()
                if wanted is None:
                    simulation.try_all(crashes)
                else:
                    simulation.points_of(FaultScript.parse(wanted))
                return simulation.report(run)
            finally:
                close_history(rules.history)
                rules.memory.begin()
                if ledger is not None:
                    ledger.run = None
                beginning.leave()

    return remember(run(script))


def _rows_of(rows: Any, spark: Any) -> tuple[Sequence[Row], Callable[[Sequence[Row]], Any]]:
    """Return the rows, and a function that makes a DataFrame of some of them, all with one schema."""
    if hasattr(rows, "schema") and hasattr(rows, "collect"):
        session, schema = spark or rows.sparkSession, rows.schema
        listed = [row.asDict(recursive=True) for row in rows.collect()]
    else:
        if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in cast("Any", rows)):
            raise ConfigurationError(
                "rows",
                f"{shown(cast('object', rows))} is not a list of dicts",
                'write [{"uuid": "order-1"}], or a DataFrame',
            )
        listed = [dict(row) for row in cast("Sequence[Row]", rows)]
        session = spark or _session()
        schema = _schema_of(listed, session) if listed else None
    if not listed:
        raise ConfigurationError("rows", "there are none", "give at least one row")
    return listed, lambda some: session.createDataFrame(list(some), schema)


def _schema_of(rows: Sequence[Row], session: Any) -> Any:
    from pyspark.errors import PySparkException  # noqa: PLC0415  (with the extra)

    try:
        return session.createDataFrame(list(rows)).schema
    except PySparkException as error:  # such as a column that is None in each row
        raise ConfigurationError(
            "rows", f"Spark finds no type for a column: {text_of(error)}", "give a DataFrame, which has types"
        ) from error


def _session() -> Any:
    """Return the active session, or a local one."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (with the extra)

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the first python3 on the PATH
    builder = SparkSession.Builder().master("local[2]").appName("doubtless")
    for name, value in _LOCAL.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


#: The settings of a session that is started for a simulation.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}


def _rules(
    subject: ForeachBatch,
    frame: Callable[[Sequence[Row]], Any],
    world: tuple[Any, EffectsBeginning, Sequence[object]],
    database: Path,
    deliveries: int,
) -> BatchRules:
    effects, beginning, keep = world
    settings = subject.settings
    asked = [
        resolver.function
        for resolver in (settings.resolver, settings.replay_resolver)
        if resolver is not None
    ]
    durable = [effects, *asked, settings.committed, *keep]
    memory = memory_of([subject.function], durable=durable, reset=beginning.reset)
    observes = not isinstance(effects, Effects)
    return BatchRules(subject, frame, beginning.count, memory, database, deliveries, observes)


@dataclass(slots=True, kw_only=True)
class _BatchSimulation(Search):
    rules: BatchRules
    batches: Sequence[Sequence[Row]]
    due: Counter[Hashable] = field(default_factory=Counter[Hashable])
    _by_row: dict[str, Counter[Hashable]] | None = None
    _parked_anyway: set[str] = field(default_factory=set[str])

    def run(
        self, script: FaultScript, batches: Sequence[Sequence[Row]]
    ) -> tuple[BatchCourse, Counter[Hashable]]:
        """Run a script from the beginning; return it, and the effects that happened."""
        self.rules.memory.begin()
        self.beginning.reach()
        course = BatchCourse(self.rules, FaultChoice(script), batches)
        if self.ledger is not None:
            self.ledger.run = course
        course.run()
        had = self.rules.count()
        return course, Counter[Hashable]({UNNAMED: had.total()}) if self.unnamed else had

    def learn(self) -> None:
        """Learn the effects of the rows if nothing goes wrong: these are due.

        Raises:
            ConfigurationError: a batch fails although nothing goes wrong.
        """
        whole = [[row for batch in self.batches for row in batch]]
        course, together = self._undisturbed(whole)
        self._parked_anyway = course.parked
        _, apart = self._undisturbed(self.batches)
        if set(apart) != set(together) and apart.total() == together.total():
            self.unnamed = True  # its keys differ in each run: only their number can be compared
            together, apart = (Counter[Hashable]({UNNAMED: counts.total()}) for counts in (together, apart))
        self.due = apart
        if apart != together and sum(self._rowwise().values(), Counter[Hashable]()) == together:
            self.due = together  # each row has separate effects, so a batch removed the effects of another

    def _undisturbed(self, batches: Sequence[Sequence[Row]]) -> tuple[BatchCourse, Counter[Hashable]]:
        course, had = self.run(FaultScript(), batches)
        if course.failure is not None:
            raise ConfigurationError(
                "function",
                f"a batch fails although nothing goes wrong: {'; '.join(course.lines[0].faults)}",
                "let it succeed with these rows first",
            ) from course.failure
        return course, had

    def try_all(self, crashes: int) -> None:
        """Run every script of few faults, the shortest first, until something is found."""
        kinds: Sequence[Memory] = ("dies", "stays") if self.rules.memory.ambiguous else ("dies",)
        self.search([FaultScript(memory=memory) for memory in kinds], crashes, MOST_SCRIPTS)

    def points_of(self, script: FaultScript) -> Sequence[Point]:
        """Run one script, and judge its result."""
        course, had = self.run(script, self.batches)
        self.count(course.parked, course.unfinished, course.warnings)
        if not course.warnings:  # the work of a handler after the death is not evidence
            self.keep(self._finding(course, had))
        return course.points

    def _finding(self, course: BatchCourse, had: Counter[Hashable]) -> Finding:
        doubled = {key: (had[key], self.due[key]) for key in had if had[key] > self.due[key] > 0}
        lost = {key: (had[key], due) for key, due in self.due.items() if had[key] < due}
        if lost:
            owed = self._owed(course)
            lost = {key: (count, owed[key]) for key, (count, _) in lost.items() if count < owed[key]}
        return Finding(course.choice.script, course.lines, lost, doubled, head=HEAD)

    def _owed(self, course: BatchCourse) -> Counter[Hashable]:
        """Return what is due, without the rows that are parked or still to come."""
        excused = (course.parked - self._parked_anyway) | {self._name(row) for row in course.unfinished}
        if not excused:
            return self.due
        if excused >= self._names():
            return Counter()
        services = self._rowwise()
        if sum(services.values(), Counter[Hashable]()) != self.due:
            return Counter()  # an effect is not of one row: nobody can tell which effects are excused
        return sum((due for name, due in services.items() if name not in excused), Counter[Hashable]())

    def _rowwise(self) -> Mapping[str, Counter[Hashable]]:
        """Learn the effects of each row in a separate batch, when they are needed."""
        if self._by_row is None:
            rows = [row for batch in self.batches for row in batch]
            self._by_row = {
                name: self._undisturbed([[row for row in rows if self._name(row) == name]])[1]
                for name in sorted(self._names())
            }
        return self._by_row

    def _names(self) -> set[str]:
        return {self._name(row) for batch in self.batches for row in batch}

    def _name(self, row: Row) -> str:
        try:
            return identity_of_row(row, self.rules.subject.settings.columns) or ""
        except NoIdentityError:
            return ""
