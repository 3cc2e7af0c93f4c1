"""The desk: parked messages in groups, the messages of one group, and saved filters of both."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from history.beside.filters import Filters, StoredFilter, name_of
from history.beside.kept import KeepsBeside
from history.beside.security import SecurityEvent
from history.bridge import drive
from history.errors import DoubtlessError
from history.store.decisions import DecisionKind
from history.store.parking import ParkedKind
from triggers.configuration.nearest import listed
from triggers.dashboard.filters import NAMES
from triggers.dashboard.groups import Group, Line, hosts_of
from triggers.dashboard.operations import Operations
from triggers.dashboard.pages.timeline import owner_in_words
from triggers.dashboard.pulse import Source
from triggers.dashboard.rendering import url
from triggers.dashboard.survey import Survey
from triggers.dashboard.visit import Visit
from triggers.operations.journals import UnknownNameError, refuse_unknown

#: How many groups, how many hosts with all their groups, and how many messages of one group, a page shows.
GROUPS, HOSTS, LINES = 100, 25, 50

#: What a saved filter has, besides :data:`~triggers.dashboard.filters.NAMES`.
PLACES = ("trigger", "host", "by")

#: The ways to group messages at the desk.
GROUPINGS = ("cause", "host")


def is_by_host(visit: Visit) -> bool:
    """Whether this person looks at the groups by host.

    Raises:
        UnknownNameError: the address names an unknown grouping.
    """
    refuse_unknown("by", "grouping", visit.asked("by"), GROUPINGS)
    return visit.asked("host") is not None or visit.asked("by") == "host"


def asked_groups(visit: Visit, survey: Survey) -> list[Group]:
    """Return the groups that an address asks for: of one trigger or host, or all.

    Raises:
        UnknownNameError: the address names an unknown trigger or grouping.
    """
    trigger, host = visit.trigger(), visit.asked("host")
    chosen = (
        group
        for group in (survey.hosts if is_by_host(visit) else survey.groups)
        if trigger in {None, group.trigger} and host in {None, group.host}
    )
    return visit.filters.narrowed(chosen)


def groups(visit: Visit) -> Response:
    """Show the groups, by cause or by host, the largest first; of one trigger or host, or of all."""
    survey, trigger, host = visit.operations.surveyor.latest(), visit.trigger(), visit.asked("host")
    chosen, by_host = asked_groups(visit, survey), is_by_host(visit)
    hosts, size = hosts_of(chosen), HOSTS if by_host else GROUPS
    visit.operations.pulse.look()
    first = (visit.page - 1) * size
    return visit.show(
        "desk/groups.html",
        survey=survey,
        away=_away(visit.operations),
        unseen=_unseen(visit.operations, trigger),
        groups=[] if by_host else chosen[first : first + size],
        hosts=[(host, possible(visit, host.groups)) for host in hosts[first : first + size]],
        more=len(hosts if by_host else chosen) > first + size,
        listed=sum(len(group.lines) for group in chosen),
        count=sum(group.count for group in chosen),
        trigger=trigger,
        triggers=sorted(survey.counts()),
        filters=visit.filters.given,
        saved=saved_of(visit),
        filtered=_filtered(visit),
        host=host,
        by="host" if by_host else None,
        known_hosts=listed({group.host for group in survey.hosts if group.host is not None}),
    )


def _away(operations: Operations) -> Sequence[Source]:
    """Return the histories that do not answer: the next survey of one may be minutes away."""
    failing = operations.surveyor.fails
    return [*failing, *(source for source in operations.pulse.away if source not in failing)]


def _unseen(operations: Operations, trigger: str | None) -> Mapping[str, str]:
    """Return where triggers park messages that the dashboard can never show, by trigger."""
    names = sorted(operations.triggers) if trigger is None else [trigger]
    return {name: where for name in names if (where := operations.unseen(name)) is not None}


def _filtered(visit: Visit) -> Mapping[str, str]:
    """Return what the address filters, as a form saves it; a grouping alone is no filter."""
    texts = {name: value for name in PLACES if (value := visit.asked(name))}
    return {**visit.filters.given, **texts} if visit.filters.given or texts.keys() - {"by"} else {}


def group(visit: Visit) -> Response:
    """Show the messages of a group, the oldest first."""
    whole, filters = visit.operations.surveyor.latest().group(visit.asked("key")), visit.filters
    narrowed = None if whole is None else filters.narrow(whole)
    if narrowed is None:
        return visit.problem(
            404, "Nothing is left of this group", "Its messages have been decided or closed."
        )
    first = (visit.page - 1) * LINES
    lines = narrowed.lines[first : first + LINES]
    return visit.show(
        "desk/group.html",
        group=narrowed,
        lines=lines,
        runner=owner_in_words,
        explains=any(line.reason != narrowed.reason or line.error for line in lines),
        filters=filters.given,
        assigned=assigned_of(visit.operations.lot_of(narrowed.trigger), narrowed.trigger, lines),
        more=len(narrowed.lines) > first + LINES,
        decisions=possible(visit, [narrowed]),
    )


def assigned_of(store: KeepsBeside, trigger: str, lines: Sequence[Line]) -> Mapping[str, str]:
    """Return to whom messages are assigned, by their ids."""
    return drive(store.comments.assigned(trigger, [line.id for line in lines])) if lines else {}


def possible(visit: Visit, groups: Sequence[Group]) -> list[str]:
    """Name the decisions that this person can take about at least one of some groups."""
    each = [decisions_about(visit, group.trigger, group.kind) for group in groups]
    return [word.value for word in DecisionKind if any(word.value in names for names in each)]


def decisions_about(visit: Visit, trigger: str, kind: ParkedKind) -> list[str]:
    """Name the decisions that this person can take about a message of a trigger."""
    if not visit.may("operator"):
        return []
    runnable = why_not_run(visit, trigger, kind) is None
    return [word.value for word in DecisionKind if runnable or word is not DecisionKind.RUN]


def why_not_run(visit: Visit, trigger: str, kind: ParkedKind) -> str | None:
    """Return why messages of a trigger cannot be run from here; None if they can."""
    if kind is ParkedKind.UNREADABLE:
        return "it was not a message"
    if trigger not in visit.operations.triggers:
        return f"the dashboard was started without the module of {trigger}"
    return None


def saved_of(visit: Visit) -> Sequence[Mapping[str, Any]]:
    """Return the saved filters that this person may see; none while the history is away.

    Others than those who see bodies do not see texts that were searched: they may quote a body.
    """
    try:
        saved = drive(_filters(visit).read())
    except DoubtlessError:
        return []
    return [_shown(filter_) for filter_ in saved if visit.sees_bodies or "text" not in filter_.values]


def list_filters(visit: Visit) -> Response:
    """Answer a program with the saved filters."""
    drive(_filters(visit).read())  # a program is told if the history is away
    return visit.data({"filters": saved_of(visit)})


def save_filter(visit: Visit) -> Response:
    """Save the filters of a form under a name."""
    texts = {name: value for name in PLACES if (value := (visit.given(name) or "").strip())}
    values = {**visit.filters.given, **texts}
    saved = StoredFilter.checked(visit.given("name"), values, by=visit.session.user)
    with visit.recorded([visit.record_of(SecurityEvent.FILTER, why=f"saves the filter {saved.name}")]):
        drive(_filters(visit).save(saved))
    return _answer(visit, values)


def remove_filter(visit: Visit) -> Response:
    """Remove a saved filter."""
    name, kept = name_of(visit.given("name")), _filters(visit)
    names = [saved.name for saved in drive(kept.read())]
    if name not in names:
        raise UnknownNameError("name", "filter", name, names)
    with visit.recorded([visit.record_of(SecurityEvent.FILTER, why=f"removes the filter {name}")]):
        drive(kept.remove(name))
    return _answer(visit, {})


def _answer(visit: Visit, values: Mapping[str, str]) -> Response:
    if visit.by_program:
        return list_filters(visit)
    return visit.go("/parked", **values)


def _filters(visit: Visit) -> Filters:
    return visit.operations.store.filters


def _shown(saved: StoredFilter) -> Mapping[str, Any]:
    values = {name: saved.values[name] for name in (*NAMES, *PLACES) if name in saved.values}
    return {
        "name": saved.name,
        "filter": values,
        "by": saved.by,
        "at": saved.at,
        "address": url("/parked", **values),
        "about": ", ".join(f"{name} {value}" for name, value in values.items()),
    }
