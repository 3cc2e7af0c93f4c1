"""The records of batches in Redis, in the slot of the document history; see ``lua/progress/keep.lua``."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from history.redis.connection.client import RedisClient
from history.redis.scripts import ScriptsOfTriggers
from history.store import milliseconds
from history.store.progress import KEPT_BATCHES, RECORDS_KEPT_FOR, BatchRecord
from history.support.spoilt import readable


def record_words(record: BatchRecord) -> list[bytes]:
    """Return a record as ``lua/progress/keep.lua`` takes it."""
    return [
        record.query.encode(),
        b"%d" % record.batch,
        b"%d" % record.revision,
        record.model_dump_json().encode(),
        b"%d" % (record.batch - KEPT_BATCHES),
        b"%d" % milliseconds(RECORDS_KEPT_FOR),
    ]


class RedisProgress:
    """Records of batches in Redis; each method is one script, or one for each page.

    Guarantee: what ``write`` has kept is kept as safely as Redis keeps the history.
    """

    def __init__(self, client: RedisClient) -> None:
        self._scripts = ScriptsOfTriggers(client)
        self._purged: dict[str, bytes] = {}

    async def read(self, trigger: str, query: str, batch: int) -> BatchRecord | None:
        """Return the record of a batch."""
        found = _records(await self._read(trigger, b"one", query.encode(), b"%d" % batch))
        return found[0] if found else None

    async def write(self, trigger: str, record: BatchRecord) -> bool:
        """Keep a record that follows the one that is held; see :class:`~history.store.progress.Progress`."""
        return bool(await self._scripts[trigger].run("progress/write", record_words(record)))

    async def batches(self, trigger: str, query: str, *, limit: int = 100) -> Sequence[BatchRecord]:
        """Return records of a query, the greatest batch first."""
        return list(_readable(trigger, await self._read(trigger, b"some", query.encode(), b"%d" % limit)))

    async def latest(self, trigger: str) -> Sequence[BatchRecord]:
        """Return for each query the record that changed last."""
        last: dict[str, BatchRecord] = {}
        cursor = b"0"
        while True:
            # What is written meanwhile may come twice.
            cursor, *texts = await self._read(trigger, b"latest", cursor)
            last |= {record.query: record for record in _readable(trigger, texts)}
            if cursor == b"0":
                return [last[query] for query in sorted(last)]

    async def purge_records(self, trigger: str, before: datetime) -> int:  # noqa: ARG002  (they expire)
        """Forget the names of some queries whose records have expired."""
        cursor = self._purged.get(trigger, b"0")
        self._purged[trigger], deleted = await self._scripts[trigger].run("progress/purge", [cursor])
        return int(deleted)

    async def _read(self, trigger: str, *words: bytes) -> Sequence[bytes]:
        texts: Sequence[bytes] = await self._scripts[trigger].run("progress/read", words)
        return texts


def _records(texts: Sequence[bytes]) -> Sequence[BatchRecord]:
    return [BatchRecord.model_validate_json(text) for text in texts]


def _readable(trigger: str, texts: Sequence[bytes]) -> Iterator[BatchRecord]:
    named = ((f"of the trigger {trigger} ({text[:60]!r})", text) for text in texts)
    return readable("the record of a batch", named, BatchRecord.model_validate_json)
