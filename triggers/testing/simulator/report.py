"""The search for scripts that lose or double effects, and its findings: the shortest script as a table."""

import random
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Protocol

from history.message import UNDEFINED_COUNT, Message
from triggers.detection.sentences import situation
from triggers.detection.table import ROWS
from triggers.testing.simulator.course import Course, Delivered
from triggers.testing.simulator.effects import Effects, EffectsBeginning
from triggers.testing.simulator.script import FaultScript, Point, extensions


class ReportLine(Protocol):
    """One line of the table that shows a script."""

    @property
    def row(self) -> int | None:
        """The number of its row in the decision table, if it has one."""
        ...

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells, below the table's head."""
        ...


@dataclass(frozen=True, slots=True)
class ReportStep:
    """One delivery of a script, in the words of the decision table."""

    number: int
    message: str
    after: str
    delivery_count: int
    row: int | None
    verdict: str
    answer: str
    happened: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells of its line in the table."""
        count = "-1" if self.delivery_count == UNDEFINED_COUNT else str(self.delivery_count)
        row = "-" if self.row is None else str(self.row)
        return (
            str(self.number),
            self.message,
            self.after,
            count,
            row,
            self.verdict,
            self.answer,
            self.happened,
        )


_HEAD = ("step", "message", "after", "delivery count", "row", "status", "answer", "what happened")


@dataclass(frozen=True, slots=True)
class Finding:
    """A script after which effects were lost or doubled: which ones, how many, and how many were due."""

    script: FaultScript
    steps: Sequence[ReportLine]
    lost: Mapping[Hashable, tuple[int, int]]
    doubled: Mapping[Hashable, tuple[int, int]]
    warnings: Sequence[str] = ()
    head: tuple[str, ...] = _HEAD

    @property
    def replay(self) -> str:
        """The text that ``Report.replay`` and ``exactly_once(script=)`` run again."""
        return str(self.script)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        lines = [
            *(f"DOUBLED: {key!s}: {had} times instead of {due}" for key, (had, due) in self.doubled.items()),
            *(f"LOST: {key!s}: {had} times instead of {due}" for key, (had, due) in self.lost.items()),
            "",
            *_table([self.head, *(step.cells for step in self.steps)]),
            *(f"  row {row}: {what}" for row, what in self._rows().items()),
            "",
            f"again: report.replay({self.replay!r})",
        ]
        return "\n".join([*lines, *self.warnings])

    def _rows(self) -> Mapping[int, str]:
        named = {step.row for step in self.steps if step.row is not None}
        return {row.number: situation(row) for row in ROWS if row.number in named}


#: Reports of lost or doubled effects, for the pytest plugin, which shows them.
losses: list["Report"] = []

#: Those of them that no code has looked at: the test that made them checks nothing.
unread: set["Report"] = set()

_VERDICTS = frozenset({"lost", "doubled"})


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """The result of a simulation. ``print(report)`` shows the shortest script with a finding.

    ``scripts`` is how many were run. ``parked`` is in how many of them a message was parked, and
    ``unfinished`` in how many a message was still being recovered at the end. ``lost`` and ``doubled`` hold
    the findings, the shortest first.
    """

    trigger: str
    seed: int
    scripts: int
    lost: Sequence[Finding] = ()
    doubled: Sequence[Finding] = ()
    parked: int = 0
    unfinished: int = 0
    warnings: Sequence[str] = ()
    again: Callable[[str], "Report"] | None = field(default=None, repr=False)

    def __getattribute__(self, name: str) -> Any:
        if name in _VERDICTS:
            unread.discard(self)
        return object.__getattribute__(self, name)

    @property
    def never_twice(self) -> bool:
        """Whether no script made an effect happen twice."""
        return not self.doubled

    @property
    def none_lost(self) -> bool:
        """Whether no script lost an effect: its message acknowledged and not parked, without the effect."""
        return not self.lost

    @property
    def shortest(self) -> Finding | None:
        """The shortest script that lost or doubled an effect; None if there is none."""
        return min(
            [*self.doubled, *self.lost], key=lambda case: (len(case), len(case.script.faults)), default=None
        )

    def replay(self, script: str) -> "Report":
        """Run one script again, for example to step through it in a debugger.

        Raises:
            RuntimeError: the report was made by hand, and nothing ran.
        """
        if self.again is None:
            raise RuntimeError("this report was not made by exactly_once")
        return self.again(script)

    def check(self) -> None:
        """Raise an AssertionError that shows everything, unless nothing was lost or doubled."""
        if not (self.never_twice and self.none_lost):
            raise AssertionError(str(self))

    def __repr__(self) -> str:
        counterexample = self.shortest
        if counterexample is None:
            return f"<{self.trigger}: {self.scripts} scripts, nothing lost or doubled>"
        what = "doubled" if counterexample.doubled else "lost"
        return f"<{self.trigger}: {what} in {len(counterexample)} steps: replay({counterexample.replay!r})>"

    def __str__(self) -> str:
        head = f"{self.trigger}: {self.scripts} scripts (seed {self.seed}), "
        if self.never_twice and self.none_lost:
            tail = f"nothing lost or doubled; {self.parked} ended with a parked message"
            return "\n".join([head + tail, *self.warnings])
        head += f"{len(self.doubled)} doubled an effect, {len(self.lost)} lost one. The shortest:"
        shown = [self.shortest]
        if self.doubled and self.lost and self.shortest not in self.lost:
            shown.append(self.lost[0])
        elif self.doubled and self.lost and self.shortest not in self.doubled:
            shown.append(self.doubled[0])
        return "\n\n".join([head, *map(str, shown), *self.warnings])


def remember(report: Report) -> Report:
    """Return a report, which the pytest plugin also gets if it has a finding."""
    if report.lost or report.doubled:
        losses.append(report)
        unread.add(report)
    return report


def steps_of(course: Course, messages: Sequence[Message]) -> Sequence[ReportStep]:
    """Return the deliveries of a run, as the lines of a table."""
    return [
        _step(number, delivery, course, messages[delivery.index].uuid)
        for number, delivery in enumerate(course.deliveries, 1)
    ]


def _step(number: int, delivery: Delivered, course: Course, uuid: str | None) -> ReportStep:
    outcome = delivery.outcome
    count = delivery.count if course.choice.script.counts == "exact" else UNDEFINED_COUNT
    happened = "; ".join(delivery.faults) or ("a copy, beside the run above" if delivery.copy else "")
    after = _duration(delivery.elapsed.total_seconds())
    if outcome is None:
        return ReportStep(number, uuid or "", after, count, None, "process died", "none", happened)
    status = str(outcome.status or ("rejected" if outcome.rejected else "undecided"))
    if outcome.row == _IN_PROGRESS:
        status = "in progress"
    ran = f"ran {outcome.attempts} times" if outcome.attempts > 1 else "ran" if outcome.attempts else ""
    error = "" if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}"
    answer = ("acknowledge" if outcome.acknowledge else "recover") + ", park" * outcome.parked
    return ReportStep(
        number,
        uuid or "",
        after,
        count,
        outcome.row,
        status,
        answer,
        "; ".join(part for part in (ran, happened, error) if part),
    )


_IN_PROGRESS = 12


def _duration(seconds: float) -> str:
    if seconds >= 3600:  # noqa: PLR2004  (an hour)
        return f"{seconds / 3600:.1f} h"
    return f"{seconds:g} s"


def _table(rows: Sequence[Sequence[str]]) -> Sequence[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


@dataclass(slots=True)
class Search:
    """Runs the scripts of few faults of one simulation. ``name`` is the name of the trigger under test."""

    name: str
    beginning: EffectsBeginning
    ledger: Effects | None
    seed: int
    chance: random.Random = field(init=False)
    #: Whether only the number of effects can be compared, because their keys differ in each run.
    unnamed: bool = field(default=False, init=False)
    scripts: int = field(default=0, init=False)
    parked: int = field(default=0, init=False)
    unfinished: int = field(default=0, init=False)
    lost: list[Finding] = field(default_factory=list[Finding], init=False)
    doubled: list[Finding] = field(default_factory=list[Finding], init=False)
    warnings: dict[str, None] = field(default_factory=dict[str, None], init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311  (no secret)

    @abstractmethod
    def points_of(self, script: FaultScript) -> Sequence[Point]:
        """Run a script, judge its result, and return the points at which one more fault is possible."""
        ...

    @property
    def has_found(self) -> bool:
        """Whether a script has lost or doubled an effect."""
        return bool(self.lost or self.doubled)

    def search(self, level: Sequence[FaultScript], crashes: int, most: int) -> None:
        """Run scripts and their extensions, the shortest first, until something is found.

        Of the scripts of two and more faults, at most ``most`` of one length run; the seed draws them.
        """
        for depth in range(crashes + 1):
            following: list[FaultScript] = []
            if depth > 1 and len(level) > most:
                level = self.chance.sample(level, most)
            for script in level:
                following += extensions(script, self.points_of(script))
                if depth > 1 and self.has_found:
                    return
            if self.has_found:
                return
            level = following

    def count(self, parked: Sized, unfinished: Sized, warnings: Iterable[str]) -> None:
        """Count a run for the report: by what it has parked, and what it has not finished."""
        self.scripts += 1
        self.parked += bool(parked)
        self.unfinished += bool(unfinished)
        self.warnings.update(dict.fromkeys(warnings))

    def keep(self, finding: Finding | None) -> None:
        """Keep a finding for the report."""
        if finding is not None and finding.doubled:
            self.doubled.append(finding)
        if finding is not None and finding.lost:
            self.lost.append(finding)

    def report(self, again: Callable[[str], Report]) -> Report:
        """Return the findings, the shortest first."""
        return Report(
            trigger=self.name,
            seed=self.seed,
            scripts=self.scripts,
            lost=sorted(self.lost, key=len),
            doubled=sorted(self.doubled, key=len),
            parked=self.parked,
            unfinished=self.unfinished,
            warnings=list(self.warnings),
            again=again,
        )
