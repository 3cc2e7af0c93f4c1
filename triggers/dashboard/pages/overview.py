"""The overview: what goes wrong, the present rates, stopped triggers, and messages that wait for a person."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from history.errors import DoubtlessError
from history.store import HistoryStats
from history.store.control import Overview, TriggerState
from triggers.dashboard.charts.drawing import Section, section_of
from triggers.dashboard.operations import Forecast, Operations
from triggers.dashboard.pages.problems import problems_of
from triggers.dashboard.places import Waiting
from triggers.dashboard.pulse import RATES
from triggers.dashboard.survey import Survey
from triggers.dashboard.visit import Visit
from triggers.operations.status import AWAY, NO_CONSUMER, NOT_RUNNING, running_rows

#: The state of a trigger whose history does not answer the dashboard.
HISTORY_AWAY = "HISTORY AWAY"

#: The overview before a history has answered.
_NOTHING = Overview(now=datetime.min.replace(tzinfo=UTC), beats=(), orders=(), statistics={})

#: The states of a trigger, the most urgent state first.
_WORST = (
    TriggerState.SUSPENDED,
    AWAY,
    TriggerState.DISABLED,
    TriggerState.RUNNING,
    NOT_RUNNING,
    NO_CONSUMER,
)


@dataclass(frozen=True, slots=True)
class TriggerRow:
    """The facts about a trigger in one line; ``history`` is where its own history is, if it has one."""

    name: str
    state: str
    reason: str | None
    since: datetime | None
    consumers: int | None
    busy: int | None
    rates: dict[str, float] | None
    curve: list[float]
    waiting: Waiting | None
    parked: int | None
    history: str | None
    remembered: int | None


def overview(visit: Visit) -> Response:
    """Show the present state."""
    data = facts(visit.operations)
    names = [row.name for row in data["rows"]]
    return visit.show("overview.html", **data, charts=charts_of(visit.operations, names))


def fragment(visit: Visit) -> str:
    """Return the part of the page that changes."""
    return visit.html("parts/overview_live.html", **facts(visit.operations))


def charts_of(operations: Operations, names: Sequence[str]) -> Sequence[Section]:
    """Return the charts of some triggers together; they end now, by the histories' clock."""
    reading = operations.pulse.look()
    now = datetime.now(UTC) if reading is None else reading.overview.now
    latest = operations.charts.latest(names, now.timestamp())
    is_known = operations.charts.has_read(names) or not names
    return [section_of(values, is_known=is_known) for values in latest]


def facts(operations: Operations) -> dict[str, Any]:
    """Return the data of the page."""
    reading, survey = operations.pulse.look(), last_survey(operations)
    overview = _NOTHING if reading is None else reading.overview
    parked, sizes = survey.counts(), survey.sizes or {}
    known_names = [] if reading is None else reading.triggers
    names = sorted({*known_names, *operations.triggers, *parked})
    waiting = operations.places.waiting()
    rows = [
        _row(operations, name, overview, operations.parked(name, parked), waiting.get(name), sizes.get(name))
        for name in names
    ]
    rated = [row.rates for row in rows if row.rates is not None]
    return {
        "rows": rows,
        "survey": survey,
        "totals": {name: sum(rates[name] for rates in rated) for name in RATES} if rated else None,
        "problems": problems_of(operations.pulse, reading, waiting),
        "stale": operations.pulse.away,
        "consumers": len({beat.report.consumer for beat in overview.beats}),
        "asks_providers": bool(operations.places.latest()),
        **_history(operations, rows, is_counted=survey.sizes is not None),
    }


def last_survey(operations: Operations) -> Survey:
    """Return the last survey, even of a history that is away."""
    try:
        return operations.surveyor.latest()
    except DoubtlessError:
        return Survey()


def _history(operations: Operations, rows: Sequence[TriggerRow], *, is_counted: bool) -> dict[str, Any]:
    """Return the approximate size of the history, and its forecast if that is known."""
    remembered = sum(row.remembered or 0 for row in rows) if is_counted else None
    forecasts = [forecast for row in rows if (forecast := operations.forecast(row.name)) is not None]
    sizes = [forecast.size for forecast in forecasts if forecast.size is not None]
    return {
        "remembered": remembered,
        "bytes": None
        if remembered is None
        else operations.bytes_of({row.name: row.remembered or 0 for row in rows}),
        "forecast": Forecast(sum(forecast.entries for forecast in forecasts), sum(sizes) if sizes else None)
        if forecasts
        else None,
        "foreseen": len(forecasts),
    }


def _row(
    operations: Operations,
    name: str,
    overview: Overview,
    parked: int | None,
    waiting: Waiting | None,
    size: HistoryStats | None,
) -> TriggerRow:
    said, source = running_rows(name, overview), operations.pulse.source_of(name)
    worst: dict[str, Any] = min(said, key=lambda row: _WORST.index(row["state"]))
    if source.problem is not None:
        worst = {"state": HISTORY_AWAY, "reason": None, "since": source.away_since}
    rates = operations.pulse.rates(name)
    return TriggerRow(
        name=name,
        state=str(worst["state"]),
        reason=worst["reason"],
        since=worst["since"],
        consumers=None if source.reading is None else sum(row["consumer"] is not None for row in said),
        busy=None if source.reading is None else sum(row["busy"] for row in said),
        rates=None if rates is None or source.problem is not None else dict(rates),
        curve=operations.pulse.curve(name),
        waiting=waiting,
        parked=parked,
        history=None if source is operations.pulse.sources[0] else source.address,
        remembered=None if size is None else size.started + size.completed,
    )
