"""Places the values of a period in pictures, which the template ``parts/charts.html`` writes as SVG."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from triggers.dashboard.charts.series import ChartPeriod, Values

#: Where the values of a picture are, which is 320 wide and 150 high: left, right, top and bottom.
LEFT, RIGHT, TOP, BOTTOM = 40.0, 312.0, 10.0, 126.0

#: The time between two marks of the axis, in seconds.
MARKS = {ChartPeriod.HOUR: 900, ChartPeriod.DAY: 21_600}

Numbers = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line of a chart: its name, its values, and how it is drawn.

    ``runs`` are the points of each piece without a gap. ``dots`` are points without a neighbour.
    """

    name: str
    style: str
    values: Numbers
    runs: Sequence[str]
    dots: Sequence[tuple[float, float]]

    @property
    def latest(self) -> float | None:
        """The last value that is known."""
        return next((value for value in reversed(self.values) if value is not None), None)

    @property
    def most(self) -> float | None:
        """The greatest value."""
        return max((value for value in self.values if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of an axis, and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture: its lines, the marks of its axes, and its gaps as left edge and width."""

    key: str
    title: str
    unit: str
    lines: Sequence[ChartLine]
    heights: Sequence[Mark]
    times: Sequence[Mark]
    gaps: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one part."""

    at: datetime
    numbers: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Section:
    """The charts of a period, and their numbers; ``missing`` parts were not reported.

    ``is_known`` is False until the first reading.
    """

    period: ChartPeriod
    charts: Sequence[Chart]
    rows: Sequence[Row]
    missing: int
    is_known: bool


def section_of(values: Values, *, is_known: bool = True) -> Section:
    """Return the charts of a period."""
    lines = (
        ("rates", "Messages", "a second", [("done", "done"), ("duplicates", "duplicates")]),
        ("failures", "Failures", "a second", [("failed", "failed")]),
        ("duration", "Mean duration of a run", "ms", [("duration", "duration")]),
        ("parked", "Parked messages", "", [("parked", "parked")]),
    )
    columns = [values.done, values.duplicates, values.failed, values.duration, values.parked]
    return Section(
        values.period,
        [
            _chart(
                f"{key}-{values.period.name.lower()}",
                title,
                unit,
                values,
                [(name, style, getattr(values, style)) for name, style in some],
            )
            for key, title, unit, some in lines
        ],
        [
            Row(_instant(values, index), [column[index] for column in columns])
            for index in range(values.period.count)
            if values.reported[index]
        ],
        values.reported.count(False) - values.coming,
        is_known,
    )


def _chart(
    key: str, title: str, unit: str, values: Values, drawn: Sequence[tuple[str, str, Numbers]]
) -> Chart:
    most = top_of(max((number or 0.0 for _, _, numbers in drawn for number in numbers), default=0.0))
    lines = [
        ChartLine(name, style, numbers, *_pieces(numbers, most, values.period.count))
        for name, style, numbers in drawn
    ]
    heights = [Mark(_y(share * most, most), short(share * most)) for share in (0.0, 0.5, 1.0)]
    return Chart(key, title, unit, lines, heights, list(_times(values)), list(_gaps(values)))


def top_of(most: float) -> float:
    """Return a round number for the top of a chart; its half is also round."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(times * power for times in (1, 2, 4, 6, 8, 10) if times * power >= most * (1 - 1e-9))


def short(value: float | None) -> str:
    """Return a number with about three digits."""
    if value is None:
        return "-"
    for size, unit in ((1_000_000, "M"), (10_000, "k")):
        if value >= size:
            scale = 1_000_000 if unit == "M" else 1_000
            return f"{value / scale:.3g}{unit}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004  (three digits)


def _pieces(numbers: Numbers, most: float, count: int) -> tuple[Sequence[str], Sequence[tuple[float, float]]]:
    """Return the lines between gaps, and single points."""
    runs: list[str] = []
    dots: list[tuple[float, float]] = []
    for is_gap, group in groupby(enumerate(numbers), lambda numbered: numbered[1] is None):
        points = [(_x(index, count), _y(value or 0.0, most)) for index, value in group]
        if is_gap:
            continue
        if len(points) == 1:
            dots += points
        else:
            runs.append(" ".join(f"{x:.1f},{y:.1f}" for x, y in points))
    return runs, dots


def _gaps(values: Values) -> Iterator[tuple[float, float]]:
    count, half = values.period.count, (RIGHT - LEFT) / (values.period.count - 1) / 2
    old = range(count - values.coming)
    for is_reported, group in groupby(old, lambda index: values.reported[index]):
        if not is_reported:
            gap = list(group)
            left, right = max(LEFT, _x(gap[0], count) - half), min(RIGHT, _x(gap[-1], count) + half)
            yield round(left, 1), round(right - left, 1)


def _times(values: Values) -> Iterator[Mark]:
    apart, seconds = MARKS[values.period], values.period.seconds
    for index in range(values.period.count):
        at = (values.first + index) * seconds
        if at % apart == 0:
            yield Mark(round(_x(index, values.period.count), 1), f"{_instant(values, index):%H:%M}")


def _instant(values: Values, index: int) -> datetime:
    return datetime.fromtimestamp((values.first + index) * values.period.seconds, UTC)


def _x(index: int, count: int) -> float:
    return LEFT + index * (RIGHT - LEFT) / (count - 1)


def _y(value: float, most: float) -> float:
    return round(BOTTOM - value / most * (BOTTOM - TOP), 1)
