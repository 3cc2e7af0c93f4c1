"""Fingerprints in a SQL database, beside the document history."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

from history.entry import digest
from history.sql.database.engine import AnyConnection, AnyRow, Database, execute, fetch
from history.sql.statements.fingerprints import FIRST, FORGET, PURGE
from history.sql.statements.fingerprints import bodies as parameters
from history.sql.tables.history import FINGERPRINTS
from history.sql.tables.making import AddedTables, make_tables, table_exists
from history.store import milliseconds
from history.store.fingerprints import BodyOf

#: How many that have expired each call takes away, at least; so that they never pile up.
PIECE = 10

#: The most that one statement keeps.
MOST = 1000


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

    async def first_of_each(
        self, trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
    ) -> Sequence[bytes]:
        """Keep each where none is kept for its uuid, and return those that are kept."""
        asked = [(digest(uuid), fingerprint) for uuid, fingerprint in bodies]
        kept: dict[bytes, bytes] = {}
        for start in range(0, len(asked), MOST):
            # Of a uuid that stands twice, the first one is written last, and stays.
            piece = dict(reversed(asked[start : start + MOST]))
            kept |= await self._first(trigger, piece, milliseconds(time_to_live))
        forgetting = partial(execute, statement=PURGE, limit=max(PIECE, len(asked)))
        await self._run("forgetting fingerprints", forgetting)
        return [kept[key] for key, _ in asked]

    async def _first(
        self, trigger: str, bodies: Mapping[bytes, bytes], time_to_live: int
    ) -> Mapping[bytes, bytes]:
        async def write(connection: AnyConnection) -> Sequence[AnyRow]:
            values = parameters(connection.dialect.name, bodies)
            return await fetch(connection, FIRST, trigger=trigger, time_to_live=time_to_live, **values)

        rows = await self._run("keeping fingerprints", write)
        return {bytes(row.digest): bytes(row.fingerprint) for row in rows}


async def forget_fingerprint(connection: AnyConnection, *, trigger: str, key: bytes) -> bool:
    """Forget one; False when there was none, or there is no table yet."""
    if not await table_exists(connection, FINGERPRINTS):
        return False
    return bool(await fetch(connection, FORGET, trigger=trigger, digest=key))
