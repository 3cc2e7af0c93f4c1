"""The records of batches: one for each batch of a query, and for each query the batch that changed last."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from history.entry import EntryOutcome, digest
from history.errors import HistoryUnavailableError
from history.store.history import HistoryStore
from history.store.owners import BatchOwner
from history.store.progress import (
    KEPT_BATCHES,
    RECORDS_KEPT_FOR,
    BatchRecord,
    BatchState,
    Beginning,
    begun,
    changed,
)
from history.store.records import Change, Delete, Expects, Kind, Put, Record, Records, all_records, is_done
from history.support.spoilt import readable

#: The key is the digest of the query, then the number of the batch, so keys are in the order of batches.
BATCHES = Kind("batch", listed=True)

#: The key is the digest of the query; the value is the key of a batch.
QUERIES = Kind("query", listed=True)

#: How often a record is read and written again while others keep changing it.
ATTEMPTS = 10

#: The range of the numbers of batches.
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def changes_of(record: BatchRecord) -> Sequence[Change]:
    """Return the step that stores a record, if it follows the stored record."""
    query, batch = record.query, record.batch
    kept = Record(batch_key(query, batch), record.model_dump_json().encode(), record.revision)
    changes: list[Change] = [
        Put(BATCHES, kept, Expects.FOLLOWS, RECORDS_KEPT_FOR),
        Put(QUERIES, Record(digest(query), kept.key), time_to_live=RECORDS_KEPT_FOR),
    ]
    if record.revision == 1:
        # Delete old records of the query, and records that reset checkpoints left behind.
        far = [(_LEAST, batch - KEPT_BATCHES), (batch + KEPT_BATCHES + 1, _GREATEST)]
        changes += [Delete(BATCHES, batch_key(query, first), batch_key(query, last)) for first, last in far]
    return changes


def batch_key(query: str, batch: int) -> bytes:
    """Return the key of a batch."""
    return digest(query) + (batch - _LEAST).to_bytes(8)


class Progress:
    """Records of batches in the records of a store; as safe as these, and shared in the same way."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def read(self, trigger: str, query: str, batch: int) -> BatchRecord | None:
        """Return the record of a batch; None if it never began, or began too long ago."""
        (stored,) = await self._records.get(trigger, BATCHES, [batch_key(query, batch)])
        return None if stored is None else BatchRecord.model_validate_json(stored.value)

    async def write(self, trigger: str, record: BatchRecord) -> bool:
        """Store a record if it follows the stored record (by ``revision``); else False, without a change.

        A call that is sent twice succeeds twice. Old records of the query are forgotten.
        """
        changes = changes_of(record)
        return is_done(changes, await self._records.apply(trigger, changes))

    async def batches(self, trigger: str, query: str, *, limit: int = 100) -> Sequence[BatchRecord]:
        """Return records of a query, the greatest batch first."""
        return _read(trigger, await self._records.page(trigger, BATCHES, prefix=digest(query), limit=limit))

    async def latest(self, trigger: str) -> Sequence[BatchRecord]:
        """Return for each query the record that changed last, in the order of the queries' names."""
        keys = [record.value for record in await all_records(self._records, trigger, QUERIES)]
        stored = await self._records.get(trigger, BATCHES, keys)
        return sorted(_read(trigger, filter(None, stored)), key=lambda record: record.query)

    async def purge_records(self, trigger: str, before: datetime) -> int:
        """Forget a bounded number of records that have not changed since; return how many.

        The time of a change is by the server's clock.
        """
        age = datetime.now(UTC) - before
        await self._records.forget(trigger, QUERIES, age)
        return await self._records.forget(trigger, BATCHES, age)


def _read(trigger: str, records: Iterable[Record]) -> Sequence[BatchRecord]:
    """Read records for a list; skip spoilt records."""
    named = ((f"of the trigger {trigger} ({record.value[:60]!r})", record.value) for record in records)
    return list(readable("the record of a batch", named, BatchRecord.model_validate_json))


async def begin(progress: Progress, trigger: str, beginning: Beginning, now: datetime) -> BatchRecord:
    """Begin a run of a batch, so that no earlier run can go on; return the record.

    Raises:
        HistoryUnavailableError: others kept beginning it as well.
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
    """Record the new state of a run; return the record.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a run: the outcome of its entries, and the state and counts for the record."""

    outcome: EntryOutcome | None
    state: BatchState
    counts: Mapping[str, int] = field(default_factory=dict[str, int])


async def end(
    store: HistoryStore,
    progress: Progress,
    trigger: str,
    record: BatchRecord,
    owners: Sequence[BatchOwner],
    ending: Ending,
    now: datetime,
) -> BatchRecord | None:
    """Complete (or release) everything that a run owns and record it, with one write: all or nothing.

    Return the record; None if the history has forgotten the run's claims.

    Raises:
        StaleRunError: another run has begun since, and decides.
        HistoryUnavailableError: the record is gone, or others kept changing it.
    """
    before: BatchRecord | None = None
    for _ in range(ATTEMPTS):
        current = await progress.read(trigger, record.query, record.batch)
        if current is None:
            raise HistoryUnavailableError("recording a batch: its record is gone")
        wanted = changed(current, record.run, ending.state, now, ending.counts)
        if current == before:
            return None
        if await store.settle_batches(trigger, owners, ending.outcome, record=wanted):
            return wanted
        before = current
    raise HistoryUnavailableError(f"recording a batch: others kept changing its record ({ATTEMPTS} attempts)")
