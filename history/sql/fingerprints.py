"""Fingerprints in a SQL database, beside the document history."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from history.entry import digest
from history.sql.database.engine import AnyConnection, AnyRow, Database, execute, fetch
from history.sql.statements.fingerprints import FIRST, FORGET, PURGE
from history.sql.tables.history import FINGERPRINTS
from history.sql.tables.making import AddedTables, make_tables, table_exists
from history.store import milliseconds

#: How many that have expired each call takes away; so that they never pile up.
PIECE = 10


class SqlFingerprints:
    """Fingerprints in a table of their own, created at first use; safe to share as the history is."""

    def __init__(self, database: Database) -> None:
        self._run = AddedTables(
            database,
            look=partial(table_exists, table=FINGERPRINTS),
            make=partial(make_tables, tables=[FINGERPRINTS]),
            looking="looking for the fingerprints",
            creating="creating the fingerprints",
        ).run

    async def first(self, trigger: str, uuid: str, fingerprint: bytes, time_to_live: timedelta) -> bytes:
        """Keep this where none is kept, and return the one that is kept."""
        values: dict[str, Any] = {
            "trigger": trigger,
            "digest": digest(uuid),
            "fingerprint": fingerprint,
            "time_to_live": milliseconds(time_to_live),
        }

        async def write(connection: AnyConnection) -> Sequence[AnyRow]:
            return await fetch(connection, FIRST, **values)

        rows = await self._run("keeping a fingerprint", write)
        await self._run("forgetting fingerprints", partial(execute, statement=PURGE, limit=PIECE))
        return bytes(rows[0].fingerprint)


async def forget_fingerprint(connection: AnyConnection, *, trigger: str, key: bytes) -> bool:
    """Forget one; False when there was none, or there is no table yet."""
    if not await table_exists(connection, FINGERPRINTS):
        return False
    return bool(await fetch(connection, FORGET, trigger=trigger, digest=key))
