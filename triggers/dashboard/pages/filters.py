"""Saved filters of parked messages: for everybody who signs in, in the dashboard's history."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from history.beside.filters import RecordedFilters, SavedFilter, filters_of, name_of
from history.bridge import drive
from history.errors import DoubtlessError
from history.store.security import SecurityEvent
from triggers.dashboard.filters import NAMES
from triggers.dashboard.rendering import url
from triggers.dashboard.visit import Visit
from triggers.operations.journals import UnknownNameError

#: What a filter saves, besides :data:`~triggers.dashboard.filters.NAMES`.
PLACES = ("trigger", "host", "by")


def saved_of(visit: Visit) -> Sequence[Mapping[str, Any]]:
    """Return the saved filters that this person may see; none while the history is away.

    Others than those who see bodies do not see texts that were searched: they may quote a body.
    """
    try:
        saved = drive(_filters(visit).read())
    except DoubtlessError:
        return []
    return [_shown(one) for one in saved if visit.sees_bodies or "text" not in one.values]


def filters(visit: Visit) -> Response:
    """Answer a program with the saved filters."""
    drive(_filters(visit).read())  # a program is told if the history is away
    return visit.data({"filters": saved_of(visit)})


def save(visit: Visit) -> Response:
    """Save the filters of a form under a name."""
    given = {name: value for name in PLACES if (value := (visit.given(name) or "").strip())}
    values = {**visit.filters.given, **given}
    saved = SavedFilter.checked(visit.given("name"), values, by=visit.session.user)
    with visit.recorded([visit.record_of(SecurityEvent.FILTER, why=f"saves the filter {saved.name}")]):
        drive(_filters(visit).save(saved))
    return _answer(visit, values)


def remove(visit: Visit) -> Response:
    """Remove a saved filter."""
    name, kept = name_of(visit.given("name")), _filters(visit)
    names = [one.name for one in drive(kept.read())]
    if name not in names:
        raise UnknownNameError("name", "filter", name, names)
    with visit.recorded([visit.record_of(SecurityEvent.FILTER, why=f"removes the filter {name}")]):
        drive(kept.remove(name))
    return _answer(visit, {})


def _answer(visit: Visit, values: Mapping[str, str]) -> Response:
    if visit.by_program:
        return filters(visit)
    return visit.go("/parked", **values)


def _filters(visit: Visit) -> RecordedFilters:
    return filters_of(visit.operations.store)


def _shown(saved: SavedFilter) -> Mapping[str, Any]:
    values = {name: saved.values[name] for name in (*NAMES, *PLACES) if name in saved.values}
    return {
        "name": saved.name,
        "filter": values,
        "by": saved.by,
        "at": saved.at,
        "address": url("/parked", **values),
        "about": ", ".join(f"{name} {value}" for name, value in values.items()),
    }
