"""Spark: the progress of each query, the counts of its batches, and repeated batches."""

from starlette.responses import Response

from history.bridge import drive
from history.store.progress import BatchRecord
from triggers.dashboard.visit import Visit
from triggers.operations.journals import refuse_unknown

#: How many batches of a query a page shows.
BATCHES = 100


def queries(visit: Visit) -> Response:
    """Show the last batch of each query that this history knows."""
    store = visit.operations.store
    rows: list[tuple[str, BatchRecord]] = [
        (name, record) for name in drive(store.triggers()) for record in drive(store.progress.latest(name))
    ]
    return visit.show(
        "queries.html", rows=sorted(rows, key=lambda row: (row[1].name or row[1].query, row[0]))
    )


def query(visit: Visit) -> Response:
    """Show the last batches of one query."""
    trigger, name = visit.trigger() or "", visit.asked("query") or ""
    progress = visit.operations.store.progress
    records = drive(progress.batches(trigger, name, limit=BATCHES))
    if not records:
        refuse_unknown("query", "query", name, {record.query for record in drive(progress.latest(trigger))})
    return visit.show("query.html", trigger=trigger, query=name, records=records)
