"""The desk: what is parked, in groups; and the messages of one group, a page at a time."""

from starlette.responses import Response

from history.store.decisions import DecisionKind
from history.store.parking import ParkedKind
from triggers.dashboard.groups import Group
from triggers.dashboard.visit import Visit

#: How many groups, and how many messages of one, a page shows.
GROUPS, LINES = 100, 50


def groups(visit: Visit) -> Response:
    """Show the groups, by cause or by host, the largest first; of one trigger or host, or of all."""
    survey, trigger, host = visit.operations.surveyor.latest(), visit.asked("trigger"), visit.asked("host")
    by_host = host is not None or visit.asked("by") == "host"
    found = [
        group
        for group in (survey.hosts if by_host else survey.groups)
        if trigger in {None, group.trigger} and host in {None, group.host}
    ]
    first = (visit.page - 1) * GROUPS
    return visit.show(
        "desk/groups.html",
        survey=survey,
        groups=found[first : first + GROUPS],
        more=len(found) > first + GROUPS,
        trigger=trigger,
        host=host,
        by="host" if by_host else None,
    )


def group(visit: Visit) -> Response:
    """Show the messages of a group, the oldest first."""
    found = visit.operations.surveyor.latest().group(visit.asked("key"))
    if found is None:
        return visit.problem(
            404, "Nothing is left of this group", "What was in it has been decided or closed."
        )
    first = (visit.page - 1) * LINES
    return visit.show(
        "desk/group.html",
        group=found,
        lines=found.lines[first : first + LINES],
        more=len(found.lines) > first + LINES,
        decisions=possible(visit, found),
    )


def possible(visit: Visit, group: Group) -> list[str]:
    """Name the decisions that this person can take about a group."""
    return decisions_about(visit, group.trigger, group.kind)


def decisions_about(visit: Visit, trigger: str, kind: ParkedKind) -> list[str]:
    """Name the decisions that this person can take about a message of a trigger."""
    if not visit.may("operator"):
        return []
    runnable = trigger in visit.operations.triggers and kind is not ParkedKind.UNREADABLE
    return [word.value for word in DecisionKind if runnable or word is not DecisionKind.RUN]
