"""Charts show the counts that consumers added, of each history, and again after more counts."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from history.beside.charts import ChartStep
from history.bridge import drive
from history.store.control import Counts, Report
from tests.fixtures.beside import kept_in
from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import Browser
from tests.integration.dashboard.conftest import Site
from triggers.dashboard.charts import reading
from triggers.dashboard.charts.reading import Charts
from triggers.dashboard.charts.series import ChartPeriod, Values
from triggers.dashboard.operations import Operations


def add(site: Site, minutes: Sequence[int], *, per_minute: int = 60, trigger: str = "book") -> None:
    """Add the steps of so many minutes ago."""
    charts, now = kept_in(site.store).charts, datetime.now(UTC)
    for minute in minutes:

        async def make(at: datetime = now - timedelta(minutes=minute), ago: int = minute) -> ChartStep:
            return ChartStep(at, Counts(new=per_minute * (2000 - ago)), 7)

        drive(charts.add(trigger, now - timedelta(minutes=minute), make))
    drive(site.store.control.beat(f"token-{trigger}", [Report(consumer="worker-1", trigger=trigger)]))


def rows_of(html: str) -> list[list[str]]:
    table = html.partition("Numbers of the last hour")[2].partition("</table>")[0]
    return [re.findall(r'<td class="number">([^<]*)</td>', row) for row in table.split("<tr>")[2:]]


@pytest.mark.parametrize("path", ["/", "/trigger?name=book"])
def test_the_last_hour_is_shown_with_its_gap(site: Site, operator: Browser, path: str) -> None:
    add(site, [*range(50, 30, -1), *range(20, 0, -1)])

    html = operator.page(path)

    rows = rows_of(html)
    assert len(html.split("data-chart=")) == 1 + 2 * 4
    assert html.count('class="gap"') >= 4
    assert 38 <= len(rows) <= 40
    assert {row[0] for row in rows} == {"1"}
    assert {row[4] for row in rows} == {"7"}


def test_overview_has_the_sum_of_all_triggers_and_a_trigger_its_own(site: Site, operator: Browser) -> None:
    add(site, range(9, 0, -1))
    add(site, range(9, 0, -1), per_minute=120, trigger="ship")

    assert {row[0] for row in rows_of(operator.page("/"))[1:-1]} == {"3"}
    assert {row[0] for row in rows_of(operator.page("/trigger?name=ship"))} == {"2"}


def test_without_a_step_a_page_says_when_there_will_be_some(site: Site, operator: Browser) -> None:
    site.park("order-1")

    assert operator.page("/").count("A chart begins two minutes after") == 2


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_later_readings_ask_for_the_last_hours_only_and_lose_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(site, range(300, 10, -1))
    operations: Operations = site.app.state.operations
    clock, now = Clock(), datetime.now(UTC).timestamp()
    kept, fresh = Charts(operations.pulse, clock=clock), Charts(operations.pulse, background=False)
    monkeypatch.setattr(reading, "PATIENCE", 60.0)
    read: list[int] = []
    steps = kept_in(site.store).charts
    original = type(steps).steps

    async def counted(self: object, trigger: str, *, hours: int = 25) -> Sequence[ChartStep]:
        read.append(hours)
        return await original(steps, trigger, hours=hours)

    monkeypatch.setattr(type(steps), "steps", counted)
    kept.latest(["book"], now)
    add(site, range(10, 0, -1))
    clock.now += reading.FRESH

    wanted = known(fresh.latest(["book"], now))
    assert eventually(lambda: known(kept.latest(["book"], now)) == wanted)
    assert read == [25, 25, 1]
    kept.close()
    fresh.close()


def known(found: Sequence[Values]) -> dict[ChartPeriod, list[float | None]]:
    return {one.period: [None if value is None else round(value, 6) for value in one.done] for one in found}
