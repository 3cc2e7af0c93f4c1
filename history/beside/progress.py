"""The records of batches: one for each batch of a query, and for each query the batch that changed last."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from history.entry import digest
from history.store.progress import KEPT_BATCHES, RECORDS_KEPT_FOR, BatchRecord
from history.store.records import Change, Delete, Expects, Kind, Put, Record, Records, all_records, is_done
from history.support.spoilt import readable

#: The key is the digest of the query, then the number of the batch, so keys are in the order of batches.
BATCHES = Kind("batch", listed=True)

#: The key is the digest of the query; the value is the key of a batch.
QUERIES = Kind("query", listed=True)

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


class RecordedProgress:
    """Records of batches in the records of a store; as safe as these, and shared in the same way."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def read(self, trigger: str, query: str, batch: int) -> BatchRecord | None:
        """Return the record of a batch."""
        (stored,) = await self._records.get(trigger, BATCHES, [batch_key(query, batch)])
        return None if stored is None else BatchRecord.model_validate_json(stored.value)

    async def write(self, trigger: str, record: BatchRecord) -> bool:
        """Store a record that follows the stored one; see :class:`~history.store.progress.Progress`."""
        changes = changes_of(record)
        return is_done(changes, await self._records.apply(trigger, changes))

    async def batches(self, trigger: str, query: str, *, limit: int = 100) -> Sequence[BatchRecord]:
        """Return records of a query, the greatest batch first."""
        return _read(trigger, await self._records.page(trigger, BATCHES, prefix=digest(query), limit=limit))

    async def latest(self, trigger: str) -> Sequence[BatchRecord]:
        """Return for each query the record that changed last."""
        keys = [record.value for record in await all_records(self._records, trigger, QUERIES)]
        stored = await self._records.get(trigger, BATCHES, keys)
        return sorted(_read(trigger, filter(None, stored)), key=lambda record: record.query)

    async def purge_records(self, trigger: str, before: datetime) -> int:
        """Forget some records that have not changed since."""
        age = datetime.now(UTC) - before
        await self._records.forget(trigger, QUERIES, age)
        return await self._records.forget(trigger, BATCHES, age)


def _read(trigger: str, records: Iterable[Record]) -> Sequence[BatchRecord]:
    """Read records for a list; skip spoilt records."""
    named = ((f"of the trigger {trigger} ({record.value[:60]!r})", record.value) for record in records)
    return list(readable("the record of a batch", named, BatchRecord.model_validate_json))
