"""From steps to pictures: rates, gaps, and round numbers."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from history.beside.charts import ChartStep
from history.store.control import Counts
from triggers.dashboard.charts.drawing import BOTTOM, LEFT, RIGHT, TOP, section_of, short, top_of
from triggers.dashboard.charts.series import ChartPeriod, PeriodPart, Values, parts_of, values_of

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def step(minute: float, parked: int | None = 0, **counts: int) -> ChartStep:
    return ChartStep(NOON + timedelta(minutes=minute), Counts(**counts), parked)


def values(
    *triggers: Sequence[ChartStep], period: ChartPeriod = ChartPeriod.HOUR, minute: float = 59
) -> Values:
    now = (NOON + timedelta(minutes=minute)).timestamp()
    return values_of([parts_of(steps, period) for steps in triggers], period, now)


def test_a_minute_has_what_happened_between_two_steps() -> None:
    steps = [step(3), step(4, 2, new=120, failed=30, duplicate=6, runs=150, microseconds=300_000)]

    found = values(steps)

    assert (found.done[3], found.failed[3], found.duplicates[3]) == (1.5, 0.5, 0.1)
    assert (found.duration[3], found.parked[3]) == (2.0, 2)
    assert found.reported.count(True) == 1


def test_what_happened_between_is_divided_among_the_minutes_that_it_touches() -> None:
    found = values([step(3.5, new=0), step(4.5, new=60), step(5.5, new=180)])

    assert found.done[3:6] == [1.0, 1.5, 2.0]


def test_nothing_that_was_reported_is_a_gap_and_nothing_that_happened_is_a_zero() -> None:
    steps = [step(0, new=5), step(1, new=5), step(9, new=500), step(10, new=560)]

    found = values(steps)

    assert found.done[:10] == [0.0, *[None] * 8, 1.0]
    assert found.duration[0] is None
    assert found.reported[:10] == [True, *[False] * 8, True]


def test_a_minute_whose_step_is_missing_has_the_rate_of_both() -> None:
    assert values([step(3), step(5, new=240)]).done[3:5] == [2.0, 2.0]


def test_counts_that_were_cleared_begin_at_zero() -> None:
    assert values([step(3, new=6000, runs=6000), step(4, new=60, runs=60)]).done[3] == 1.0


def test_several_triggers_are_added_up_and_runs_weigh_as_many_as_they_are() -> None:
    book = [step(3), step(4, 2, new=60, runs=30, microseconds=30_000)]
    ship = [step(3), step(4, 5, new=120, runs=90, microseconds=450_000), step(5, 6, new=180, runs=90)]

    found = values(book, ship)

    assert (found.done[3], found.parked[3], found.duration[3]) == (3.0, 7, 4.0)
    assert (found.done[4], found.parked[4]) == (1.0, 6)


def test_a_day_has_parts_of_ten_minutes() -> None:
    steps = [step(minute, new=60 * minute) for minute in range(61)]

    found = values(steps, period=ChartPeriod.DAY)

    assert found.done[-6:] == pytest.approx([1.0] * 6)
    assert found.reported.count(True) == 6
    assert sum(part.seconds for part in parts_of(steps, ChartPeriod.DAY).values()) == pytest.approx(3600)


def test_a_picture_has_a_line_for_each_piece_and_a_shade_for_each_gap() -> None:
    steps = [step(minute, new=60 * minute) for minute in (*range(10), *range(20, 31), 40, 41)]

    section = section_of(values(steps))

    (done, duplicates) = section.charts[0].lines
    assert (len(done.runs), len(done.dots), len(duplicates.runs)) == (2, 1, 2)
    assert len(section.charts[0].gaps) == 3
    assert section.missing == 60 - len(section.rows) == 40
    for x, y in (map(float, point.split(",")) for points in done.runs for point in points.split()):
        assert LEFT <= x <= RIGHT
        assert TOP <= y <= BOTTOM


@pytest.mark.parametrize(("minute", "gaps"), [(10.9, 1), (12.4, 1), (13.0, 2)])
def test_the_last_minutes_are_no_gap_while_their_step_may_still_come(minute: float, gaps: int) -> None:
    steps = [step(ago, new=60) for ago in range(11)]

    assert len(section_of(values(steps, minute=minute)).charts[0].gaps) == gaps


def test_an_hour_without_a_report_has_no_rows() -> None:
    section = section_of(values())

    assert (section.rows, section.missing) == ([], 60)
    assert section.charts[0].lines[0].latest is None


@pytest.mark.parametrize(
    ("most", "top"), [(0, 1), (0.3, 0.4), (1, 1), (1.01, 2), (5, 6), (9.9, 10), (123, 200), (7e6, 8e6)]
)
def test_the_top_of_a_chart_is_round(most: float, top: float) -> None:
    assert top_of(most) == pytest.approx(top)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.123456, "0.123"),
        (12.34, "12.3"),
        (1234.0, "1,234"),
        (5e4, "50k"),
        (2.5e6, "2.5M"),
    ],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert short(value) == text


def test_a_part_without_seconds_has_no_rate() -> None:
    number = int(NOON.timestamp() // 60)

    assert values_of([{number: PeriodPart()}], ChartPeriod.HOUR, NOON.timestamp()).done[-1] is None
