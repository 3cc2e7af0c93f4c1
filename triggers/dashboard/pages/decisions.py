"""The audit trail: who decided what about parked messages, when, and why. It only grows."""

import heapq
from itertools import islice
from operator import itemgetter

from starlette.responses import Response

from history.bridge import drive
from triggers.dashboard.visit import Visit
from triggers.operations.decisions import decision_rows

#: How many decisions a page shows, and how far back the pages go.
ROWS, FURTHEST = 50, 5_000

#: How many messages of a decision are named.
NAMED = 5


def decisions(visit: Visit) -> Response:
    """Show decisions, the newest first, of one trigger or of all."""
    trigger, operations = visit.trigger(), visit.operations
    lists = [
        decision_rows(store.parking, name)
        for source in operations.pulse.answering()
        for store in (operations.pulse.opened(source),)
        for name in (drive(store.triggers()) if trigger is None else [trigger])
    ]
    first = min((visit.page - 1) * ROWS, FURTHEST)
    rows = list(islice(heapq.merge(*lists, key=itemgetter("at"), reverse=True), first, first + ROWS + 1))
    jobs = [job for job in operations.jobs.unfinished() if trigger is None or trigger in job.triggers]
    return visit.show(
        "desk/decisions.html",
        rows=rows[:ROWS],
        more=len(rows) > ROWS,
        trigger=trigger,
        away=operations.pulse.away,
        named=NAMED,
        jobs=jobs,
    )
