"""The search for scripts that lose or double effects, and its findings: for triggers and for batches."""

import random
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, field

from triggers.testing.simulator.effects import Beginning, Effects
from triggers.testing.simulator.report import Finding, Report
from triggers.testing.simulator.script import Point, Script, extensions


@dataclass(slots=True)
class Search:
    """Runs the scripts of few faults of one simulation. ``name`` is the name of the trigger under test."""

    name: str
    beginning: Beginning
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
    def points_of(self, script: Script) -> Sequence[Point]:
        """Run a script, judge its result, and return the points at which one more fault is possible."""
        ...

    @property
    def has_found(self) -> bool:
        """Whether a script has lost or doubled an effect."""
        return bool(self.lost or self.doubled)

    def search(self, level: Sequence[Script], crashes: int, most: int) -> None:
        """Run scripts and their extensions, the shortest first, until something is found.

        Of the scripts of two and more faults, at most ``most`` of one length run; the seed draws them.
        """
        for depth in range(crashes + 1):
            following: list[Script] = []
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
