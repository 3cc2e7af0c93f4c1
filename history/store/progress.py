"""How far each query has come: one record for each batch that a query of Spark has begun, and how it ended.

A batch that is tried again is another *run* of it. Its record says which run is the present one, what that
one is doing, and which earlier runs are known never to have reached the user's function:

    absent --begin--> CLAIMING --enter--> RUNNING --end--> COMPLETED | FAILED
                      any      --begin--> CLAIMING (a new run)
                      any      --end----> RELEASED (its entries are absent again)

A run that somebody began anew after it is *stale* and may do none of this any more: what it had not entered,
it never enters. So the entries of a run that was still CLAIMING belong to rows that were never handed to the
user's function, and those of one that was RUNNING may.

The transitions are pure. A store only compares and writes: :class:`Progress` refuses a record that does not
follow the one it holds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict

from history.entry import EntryOutcome
from history.errors import DoubtlessError, HistoryUnavailableError
from history.store.owners import BatchOwner

#: How many batches of a query are remembered; with each new one the oldest is forgotten.
KEPT_BATCHES = 1000

#: For how long a query that does nothing is remembered.
RECORDS_KEPT_FOR = timedelta(days=90)

#: How many runs that never entered the user's function a batch remembers: those of no line.
KEPT_RUNS = 20

#: How many runs that entered the user's function a batch remembers. After more, a new line begins.
KEPT_ENTERED = 1000

#: In the counts of a batch that has not ended: how many rows its runs had handed to the user's function.
HANDED_OVER = "handed_over"

#: How often a record that others keep changing is read and written again.
ATTEMPTS = 10


class BatchState(StrEnum):
    """What the present run of a batch is doing, or how it ended."""

    CLAIMING = "claiming"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"


class BatchRecord(BaseModel):
    """One batch of one query.

    ``query`` names it and ``lineage`` is its checkpoint; ``run`` is the token of the present run and
    ``attempt`` its number, from 1. ``line`` is a run, and of all that were begun since then ``entered`` are
    those that reached the user's function: any other run of the line never did, however many there were. It
    is None where an older version wrote the record, which knows but ``unentered``, the last that never did.
    ``unfinished`` says that an earlier run reached it, and that the batch was not completed since: part of
    its effects may be there. It is None where an older version wrote the record. ``changed_at`` is by the
    driver's clock. ``counts`` are the report's; before the end, :data:`HANDED_OVER` alone, of this
    run or of the one before. ``revision`` grows with every change.
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
    name: str | None = None
    started_at: AwareDatetime
    changed_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    counts: Mapping[str, int] = {}
    revision: int = 1


class Progress(Protocol):
    """Keeps the records of batches, beside the document history.

    Every method raises :class:`~history.errors.HistoryUnavailableError` when the server does not answer.
    """

    async def read(self, trigger: str, query: str, batch: int) -> BatchRecord | None:
        """Return the record of a batch; None for one that never began, or began too long ago."""
        ...

    async def write(self, trigger: str, record: BatchRecord) -> bool:
        """Keep a record that follows the one that is held (by ``revision``); False, and nothing, otherwise.

        Sending it twice succeeds twice. The record of the batch ``KEPT_BATCHES`` before it is forgotten.
        """
        ...

    async def batches(self, trigger: str, query: str, *, limit: int = 100) -> Sequence[BatchRecord]:
        """Return records of a query, the greatest batch first."""
        ...

    async def latest(self, trigger: str) -> Sequence[BatchRecord]:
        """Return for each query the record that changed last, by the query's name."""
        ...

    async def purge_records(self, trigger: str, before: datetime) -> int:
        """Forget some records that have not changed since, a bounded number of them; return how many.

        When a record has changed, its server's clock says.
        """
        ...


class StaleRunError(DoubtlessError):
    """Another run of the same batch has begun: this one may not go on."""

    def __init__(self, record: BatchRecord, run: str) -> None:
        super().__init__(
            f"run {run} of batch {record.batch} of query {record.query} was replaced by run {record.run}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What begins: the batch of a query, and the token of its new run."""

    query: str
    batch: int
    lineage: str
    run: str
    name: str | None = None


def begun(current: BatchRecord | None, beginning: Beginning, now: datetime) -> BatchRecord:
    """Return the record of a new run; meeting one's own run is success: it was sent twice."""
    if current is not None and current.run == beginning.run:
        return current
    line, entered, unentered = _earlier_runs(current, beginning)
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
        # Under another checkpoint the same number is another batch.
        unfinished=current is not None and current.lineage == beginning.lineage and _left_unfinished(current),
        counts=_handed_over(current, beginning),
        started_at=now,
        changed_at=now,
        revision=1 if current is None else current.revision + 1,
    )


def _earlier_runs(
    current: BatchRecord | None, beginning: Beginning
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return the line of a new run, those of the line that entered the function, and some that did not.

    The present run has entered it unless it is still claiming, and can do so no more.
    """
    if current is None:
        return beginning.run, (), ()
    never = current.state is BatchState.CLAIMING
    unentered = (*current.unentered, current.run)[-KEPT_RUNS:] if never else current.unentered
    entered = current.entered if never else (*current.entered, current.run)
    if current.line is None or len(entered) > KEPT_ENTERED:
        return beginning.run, (), unentered
    return current.line, entered, unentered


def _handed_over(current: BatchRecord | None, beginning: Beginning) -> Mapping[str, int]:
    """Return how many rows an earlier run of the batch has handed over, where its record says so."""
    if current is None or current.lineage != beginning.lineage:
        return {}
    rows = current.counts.get(HANDED_OVER, current.counts.get("new", 0))
    return {HANDED_OVER: rows} if rows else {}


def _left_unfinished(current: BatchRecord) -> bool:
    """Whether effects of a batch may be there that nobody has completed."""
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


async def begin(progress: Progress, trigger: str, beginning: Beginning, now: datetime) -> BatchRecord:
    """Begin a run of a batch, after which no earlier one can go on; return the record.

    Raises:
        HistoryUnavailableError: others kept beginning it too.
    """
    return await _change(progress, trigger, beginning, lambda current: begun(current, beginning, now))


async def change(
    progress: Progress,
    trigger: str,
    record: BatchRecord,
    state: BatchState,
    now: datetime,
    counts: Mapping[str, int] | None = None,
) -> BatchRecord:
    """Note what a run does now; return the record.

    Raises:
        StaleRunError: another run has begun since.
        HistoryUnavailableError: the record is gone, or others kept changing it.
    """

    def after(current: BatchRecord | None) -> BatchRecord:
        if current is None:
            raise HistoryUnavailableError("recording a batch: its record is gone")
        return changed(current, record.run, state, now, counts or {})

    return await _change(progress, trigger, record, after)


async def _change(
    progress: Progress,
    trigger: str,
    batch: Beginning | BatchRecord,
    after: Callable[[BatchRecord | None], BatchRecord],
) -> BatchRecord:
    for _ in range(ATTEMPTS):
        current = await progress.read(trigger, batch.query, batch.batch)
        wanted = after(current)
        if wanted is current or await progress.write(trigger, wanted):
            return wanted
    raise HistoryUnavailableError(f"recording a batch: others kept changing its record ({ATTEMPTS} attempts)")


class Settles(Protocol):
    """What completes batches and keeps the record of it in one step: a document history."""

    @property
    def progress(self) -> Progress:
        """The records."""
        ...

    async def settle_batches(
        self,
        trigger: str,
        owners: Sequence[BatchOwner],
        outcome: EntryOutcome | None,
        *,
        record: BatchRecord | None = None,
    ) -> bool:
        """See :class:`~history.store.HistoryStore`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ends: what becomes of its entries, and what the ledger notes of it."""

    outcome: EntryOutcome | None
    state: BatchState
    counts: Mapping[str, int] = field(default_factory=dict[str, int])


async def end(
    store: Settles,
    trigger: str,
    record: BatchRecord,
    owners: Sequence[BatchOwner],
    ending: Ending,
    now: datetime,
) -> BatchRecord | None:
    """Complete (or release) all that a run owns and note it, with one write: all of it or nothing.

    Return the record; None where the history has forgotten what the run had claimed.

    Raises:
        StaleRunError: another run has begun since, and decides.
        HistoryUnavailableError: the record is gone, or others kept changing it.
    """
    before: BatchRecord | None = None
    for _ in range(ATTEMPTS):
        current = await store.progress.read(trigger, record.query, record.batch)
        if current is None:
            raise HistoryUnavailableError("recording a batch: its record is gone")
        wanted = changed(current, record.run, ending.state, now, ending.counts)
        if current == before:
            return None
        if await store.settle_batches(trigger, owners, ending.outcome, record=wanted):
            return wanted
        before = current
    raise HistoryUnavailableError(f"recording a batch: others kept changing its record ({ATTEMPTS} attempts)")
