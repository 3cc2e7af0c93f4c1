"""Kept results in a SQL database, beside the document history."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from history.entry import digest
from history.sql.database.engine import AnyConnection, AnyRow, Database, execute, fetch
from history.sql.statements.results import FORGET, GET, PURGE, PUT
from history.sql.tables.history import RESULTS
from history.sql.tables.making import AddedTables, make_tables, table_exists
from history.store import milliseconds
from history.store.results import KeptResult
from history.store.sealing import opened_result, sealed_result
from history.support.encryption import Cipher

#: How many results that have expired each new one takes away; so that they never pile up.
PIECE = 10


class SqlResults:
    """Results in a table of their own, created at first use; safe to share as the history is."""

    def __init__(self, database: Database, cipher: Cipher | None = None) -> None:
        self._cipher = cipher
        self._run = AddedTables(
            database,
            look=partial(table_exists, table=RESULTS),
            make=partial(make_tables, tables=[RESULTS]),
            looking="looking for the results",
            creating="creating the results",
        ).run

    async def put(self, trigger: str, uuid: str, kept: KeptResult, time_to_live: timedelta) -> bool:
        """Keep this in the place of what was kept before."""
        kept = sealed_result(trigger, uuid, kept, self._cipher)
        values: dict[str, Any] = {
            "trigger": trigger,
            "digest": digest(uuid),
            "fence": kept.fence,
            "data": kept.data,
            "time_to_live": milliseconds(time_to_live),
        }

        async def write(connection: AnyConnection) -> bool:
            return bool(await fetch(connection, PUT, **values))

        done = await self._run("keeping a result", write)
        await self._run("forgetting results", partial(execute, statement=PURGE, limit=PIECE))
        return done

    async def get(self, trigger: str, uuid: str) -> KeptResult | None:
        """Return what is kept."""

        async def read(connection: AnyConnection) -> Sequence[AnyRow]:
            return await fetch(connection, GET, trigger=trigger, digest=digest(uuid))

        rows = await self._run("reading a result", read)
        if not rows:
            return None
        return opened_result(trigger, uuid, KeptResult(rows[0].fence, bytes(rows[0].data)), self._cipher)


async def forget_result(connection: AnyConnection, *, trigger: str, key: bytes) -> bool:
    """Forget one; False when there was none, or there is no table yet."""
    if not await table_exists(connection, RESULTS):
        return False
    return bool(await fetch(connection, FORGET, trigger=trigger, digest=key))
