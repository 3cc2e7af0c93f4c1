"""One measured line: its subject, its floor, their ratio, and its budget."""

from dataclasses import dataclass

from benchmarks.measuring import Times


@dataclass(frozen=True, slots=True)
class Budget:
    """The allowed ratio: at most or at least ``limit``; ``of`` says what the ratio is one of."""

    limit: float
    of: str
    at_least: bool = False

    def met_by(self, ratio: float) -> bool:
        """Whether a ratio keeps the budget."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    @property
    def bound(self) -> str:
        """The limit, and whether the ratio may be above or below it."""
        return f"{'>=' if self.at_least else '<='} {self.limit:.3g}"

    def __str__(self) -> str:
        return f"{self.bound} {self.of}"


#: The ratio is measured time by floor time: 1 is as fast as the floor, 2 takes twice as long.
TIME = "x the time"

#: The ratio is measured speed by floor speed: 1 is as fast as the floor, 0.5 half as fast.
SPEED = "x the speed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A line of the report. ``measured`` and ``floor`` are in ``unit``. Without a budget it only informs."""

    what: str
    beside: str
    unit: str
    measured: float
    floor: float
    ratio: float
    budget: Budget | None = None

    @property
    def met(self) -> bool | None:
        """Whether the budget is kept, or None without a budget."""
        return None if self.budget is None else self.budget.met_by(self.ratio)


def speeds(
    times: Times,
    ours: str,
    floor: str,
    *,
    what: str,
    beside: str,
    unit: str = "messages/s",
    budget: Budget | None = None,
) -> Result:
    """Return the line about two competitors, as messages per second."""
    return Result(
        what=what,
        beside=beside,
        unit=unit,
        measured=1 / times.of(ours),
        floor=1 / times.of(floor),
        ratio=times.ratio(floor, ours),
        budget=budget,
    )


def durations(
    times: Times,
    ours: str,
    floor: str,
    *,
    what: str,
    beside: str,
    unit: str = "µs",
    budget: Budget | None = None,
) -> Result:
    """Return the line about two competitors, as the time of one message, in µs or in milliseconds."""
    scale = 1e6 if unit == "µs" else 1e3
    return Result(
        what=what,
        beside=beside,
        unit=unit,
        measured=times.of(ours) * scale,
        floor=times.of(floor) * scale,
        ratio=times.ratio(ours, floor),
        budget=budget,
    )
