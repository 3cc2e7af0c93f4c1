"""The records of batches in a SQL database, beside the document history."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from history.sql.database.encoding import in_ascii
from history.sql.database.engine import AnyConnection, AnyRow, Database, Step, execute, fetch
from history.sql.statements.dialects import Statement
from history.sql.statements.progress import BATCHES, FORGET, INSERT, LATEST, PURGE, READ, UPDATE
from history.sql.tables.history import PROGRESS
from history.sql.tables.making import AddedTables, make_tables, table_exists
from history.store.progress import KEPT_BATCHES, BatchRecord
from history.support.spoilt import readable

T = TypeVar("T")

#: How many records a piece of a purge forgets.
PIECE = 500


async def keep_record(connection: AnyConnection, *, trigger: str, record: BatchRecord) -> bool:
    """Keep a record that follows the one that is held; in a transaction."""
    key: dict[str, Any] = {"trigger": trigger, "query": record.query}
    values: dict[str, Any] = {
        "batch": record.batch,
        "revision": record.revision,
        "changed_at": _microseconds(record.changed_at),
        "document": in_ascii(record.model_dump_json()),
    }
    first = record.revision == 1
    if not await fetch(connection, INSERT if first else UPDATE, **key, **values):
        rows = await fetch(connection, READ, **key, batch=record.batch)
        return bool(rows) and BatchRecord.model_validate_json(rows[0].document) == record
    if first:
        near = {"batch": record.batch - KEPT_BATCHES, "far": record.batch + KEPT_BATCHES}
        await execute(connection, FORGET, **key, **near)
    return True


class SqlProgress:
    """Records of batches in a SQL database; safe to share between threads, as the history is.

    Guarantee: what ``write`` has kept is kept as safely as the database keeps a commit.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._run = AddedTables(
            database,
            look=partial(table_exists, table=PROGRESS),
            make=partial(make_tables, tables=[PROGRESS]),
            looking="looking for the batches",
            creating="creating the batches",
        ).run

    async def run(self, doing: str, step: Step[T]) -> T:
        """Do something in a transaction that finds the table of the records there."""
        return await self._run(doing, step, atomic=True)

    async def read(self, trigger: str, query: str, batch: int) -> BatchRecord | None:
        """Return the record of a batch."""
        found = await self._records(READ, trigger=trigger, query=query, batch=batch)
        return found[0] if found else None

    async def write(self, trigger: str, record: BatchRecord) -> bool:
        """Keep a record that follows the one that is held; see :class:`~history.store.progress.Progress`."""
        return await self.run("noting a batch", partial(keep_record, trigger=trigger, record=record))

    async def batches(self, trigger: str, query: str, *, limit: int = 100) -> Sequence[BatchRecord]:
        """Return records of a query, the greatest batch first."""
        return await self._readable(BATCHES, trigger=trigger, query=query, limit=limit)

    async def latest(self, trigger: str) -> Sequence[BatchRecord]:
        """Return for each query the record that changed last."""
        return await self._readable(LATEST, trigger=trigger)

    async def purge_records(self, trigger: str, before: datetime) -> int:
        """Forget some records that have not changed since."""
        values: dict[str, Any] = {"trigger": trigger, "before": _microseconds(before), "limit": PIECE}
        return len(await self.run("forgetting batches", partial(fetch, statement=PURGE, **values)))

    async def _records(self, statement: Statement, **values: Any) -> Sequence[BatchRecord]:
        async def read(connection: AnyConnection) -> Sequence[AnyRow]:
            return await fetch(connection, statement, **values)

        return list(map(_record, await self._run("reading batches", read)))

    async def _readable(self, statement: Statement, **values: Any) -> Sequence[BatchRecord]:
        """Return records to look through, without those that are spoilt."""

        async def read(connection: AnyConnection) -> Sequence[AnyRow]:
            return await fetch(connection, statement, **values)

        rows = await self._run("reading batches", read)
        named = ((f"{row.batch} of the query {row.query}", row) for row in rows)
        return list(readable("the record of the batch", named, _record))


def _record(row: AnyRow) -> BatchRecord:
    return BatchRecord.model_validate_json(row.document)


_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND
