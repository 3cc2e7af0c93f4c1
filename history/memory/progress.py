"""The records of batches in memory, beside the document history in memory."""

import threading
from collections.abc import Sequence
from datetime import datetime

from history.store.progress import KEPT_BATCHES, BatchRecord


class MemoryProgress:
    """Records of batches that live and die with their process; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[tuple[str, str], dict[int, BatchRecord]] = {}

    async def read(self, trigger: str, query: str, batch: int) -> BatchRecord | None:
        """Return the record of a batch."""
        with self._lock:
            return self._records.get((trigger, query), {}).get(batch)

    async def write(self, trigger: str, record: BatchRecord) -> bool:
        """Keep a record that follows the one that is held."""
        return self.keep(trigger, record)

    def keep(self, trigger: str, record: BatchRecord) -> bool:
        """Do what :meth:`write` does, for the history that settles in the same step."""
        with self._lock:
            records = self._records.setdefault((trigger, record.query), {})
            current = records.get(record.batch)
            if current == record:
                return True
            if record.revision != (0 if current is None else current.revision) + 1:
                return False
            records[record.batch] = record
            if record.revision == 1:
                first, last = record.batch - KEPT_BATCHES, record.batch + KEPT_BATCHES
                for far in [batch for batch in records if not first < batch <= last]:
                    del records[far]
            return True

    async def batches(self, trigger: str, query: str, *, limit: int = 100) -> Sequence[BatchRecord]:
        """Return records of a query, the greatest batch first."""
        with self._lock:
            found = list(self._records.get((trigger, query), {}).values())
        return sorted(found, key=lambda record: record.batch, reverse=True)[:limit]

    async def latest(self, trigger: str) -> Sequence[BatchRecord]:
        """Return for each query the record that changed last."""
        with self._lock:
            of_queries = [records for (name, _), records in self._records.items() if name == trigger]
        last = [
            max(records.values(), key=lambda record: record.changed_at) for records in of_queries if records
        ]
        return sorted(last, key=lambda record: record.query)

    async def purge_records(self, trigger: str, before: datetime) -> int:
        """Forget the records that have not changed since."""
        with self._lock:
            own = [records for (name, _), records in self._records.items() if name == trigger]
            old = [
                (records, batch)
                for records in own
                for batch, record in records.items()
                if record.changed_at < before
            ]
            for records, batch in old:
                del records[batch]
            return len(old)
