"""The progress of queries: one record for each batch that a query of Spark has begun, and its end.

If a batch is tried again, that is another *run* of it. Its record has the present run and its state, and the
earlier runs that certainly never reached the user's function:

    absent --begin--> CLAIMING --enter--> RUNNING --end--> COMPLETED | FAILED
                      any      --begin--> CLAIMING (a new run)
                      any      --end----> RELEASED (its entries are absent again)

When a new run begins, the earlier run is *stale*: it may no longer change anything, and if it has not entered
the user's function, it never will. So if a run was still CLAIMING, its entries belong to rows that were never
handed to the user's function. If it was RUNNING, its rows may have been handed over.

The transitions are pure. :class:`~history.beside.progress.Progress` only compares and writes: it refuses a
record that does not follow the stored record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime, BaseModel, ConfigDict

from history.errors import DoubtlessError

#: How many batches of a query are remembered; with each new one the oldest is forgotten.
KEPT_BATCHES = 1000

#: For how long a query that does nothing is remembered.
RECORDS_KEPT_FOR = timedelta(days=90)

#: A batch remembers so many runs outside of its line that never entered the user's function.
KEPT_RUNS = 20

#: How many runs that entered the user's function a batch remembers. After more, a new line begins.
KEPT_ENTERED = 1000

#: In the counts of an unfinished batch: how many rows its runs have handed to the user's function.
HANDED_OVER = "handed_over"


class BatchState(StrEnum):
    """The state of the present run of a batch, or how it ended."""

    CLAIMING = "claiming"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"


class BatchRecord(BaseModel):
    """One batch of one query.

    ``query`` is its name and ``lineage`` its checkpoint; ``run`` is the token of the present run and
    ``attempt`` its number, from 1. ``line`` is the first of a series of runs, and ``entered`` are the runs of
    the series that reached the user's function: all others never did, however many there were. If an older
    version wrote the record, ``line`` is None, and only ``unentered`` is known: the last runs that never did.
    ``unfinished``: an earlier run reached it, and the batch was not completed since, so part of its effects
    may be there. It is None if an older version wrote the record. ``restored``: an older state of the
    checkpoint was restored, and no run has completed the batch since, so it may have other rows than before.
    ``changed_at`` is by the driver's clock. ``counts`` are those of the report; before the end, only
    :data:`HANDED_OVER`, of this run or the run before. ``revision`` grows with every change.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    query: str
    batch: int
    lineage: str
    run: str
    attempt: int = 1
    state: BatchState = BatchState.CLAIMING
    line: str | None = None
    entered: tuple[str, ...] = ()
    unentered: tuple[str, ...] = ()
    unfinished: bool | None = None
    restored: bool = False
    name: str | None = None
    started_at: AwareDatetime
    changed_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    counts: Mapping[str, int] = {}
    revision: int = 1


class StaleRunError(DoubtlessError):
    """Another run of the same batch has begun: this one may not go on."""

    def __init__(self, record: BatchRecord, run: str) -> None:
        super().__init__(
            f"run {run} of batch {record.batch} of query {record.query} was replaced by run {record.run}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """A beginning run: the batch of a query, and the token of its new run.

    ``restored`` is as in :class:`BatchRecord`.
    """

    query: str
    batch: int
    lineage: str
    run: str
    name: str | None = None
    restored: bool = False


def begun(current: BatchRecord | None, beginning: Beginning, now: datetime) -> BatchRecord:
    """Return the record of a new run; if it is already there, the call was sent twice and succeeds."""
    if current is not None and current.run == beginning.run:
        return current
    line, entered, unentered = _earlier_runs(current, beginning)
    # Under another checkpoint the same number is another batch.
    earlier = None if current is None or current.lineage != beginning.lineage else current
    return BatchRecord(
        query=beginning.query,
        batch=beginning.batch,
        lineage=beginning.lineage,
        run=beginning.run,
        name=beginning.name,
        attempt=1 if current is None else current.attempt + 1,
        line=line,
        entered=entered,
        unentered=unentered,
        unfinished=earlier is not None and _left_unfinished(earlier),
        restored=beginning.restored or (earlier is not None and _is_still_restored(earlier)),
        counts={} if earlier is None else _handed_over(earlier),
        started_at=now,
        changed_at=now,
        revision=1 if current is None else current.revision + 1,
    )


def _earlier_runs(
    current: BatchRecord | None, beginning: Beginning
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return the line of a new run, the runs of the line that entered the function, and some that did not.

    The present run has entered it unless it is still claiming; then it no longer can.
    """
    if current is None:
        return beginning.run, (), ()
    never = current.state is BatchState.CLAIMING
    unentered = (*current.unentered, current.run)[-KEPT_RUNS:] if never else current.unentered
    entered = current.entered if never else (*current.entered, current.run)
    if current.line is None or len(entered) > KEPT_ENTERED:
        return beginning.run, (), unentered
    return current.line, entered, unentered


def _handed_over(current: BatchRecord) -> Mapping[str, int]:
    """Return how many rows an earlier run of the batch has handed over, if its record has that."""
    rows = current.counts.get(HANDED_OVER, current.counts.get("new", 0))
    return {HANDED_OVER: rows} if rows else {}


def _is_still_restored(current: BatchRecord) -> bool:
    """Whether no run has completed the batch since its checkpoint was restored."""
    return current.restored and current.state not in {BatchState.COMPLETED, BatchState.FAILED}


def _left_unfinished(current: BatchRecord) -> bool:
    """Whether a batch may have effects although no run completed it."""
    match current.state:
        case BatchState.RUNNING | BatchState.RELEASED:
            return True
        case BatchState.COMPLETED | BatchState.FAILED:
            return False
        case BatchState.CLAIMING:
            entered = current.attempt - 1 > len(current.unentered)
            return entered if current.unfinished is None else current.unfinished


def changed(
    current: BatchRecord, run: str, state: BatchState, now: datetime, counts: Mapping[str, int]
) -> BatchRecord:
    """Return the record after the present run entered the user's function, or ended.

    Raises:
        StaleRunError: another run has begun since.
    """
    if current.run != run:
        raise StaleRunError(current, run)
    if current.state is state:
        return current
    ended = None if state is BatchState.RUNNING else now
    update = {"state": state, "changed_at": now, "ended_at": ended, "counts": dict(counts)}
    return current.model_copy(update={**update, "revision": current.revision + 1})
