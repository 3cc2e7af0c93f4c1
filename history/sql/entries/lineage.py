"""Whether a PostgreSQL is still the same server: a promoted standby or a restored backup is another one.

Each has a different timeline or system identifier. A standby may lack the last commits of its primary, and
would grant their fences again. A process that starts afterwards has no granted fences, and cannot notice (see
:mod:`history.sql.entries.fences`). So the database notes which server it was on, and every connection checks
this once. The first connection on another server makes the fences go on above all that were ever granted.
Other tables that give out numbers use their own :class:`Lineage` for the same.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Table
from sqlalchemy.exc import DataError, DBAPIError

from history.sql.database.engine import BEGIN, COMMIT, ROLLBACK, AnyConnection, execute, fetch
from history.sql.statements.dialects import Statement, statement
from history.sql.tables.history import META
from history.sql.tables.making import ONE_CREATOR, table_exists

_log = logging.getLogger(__name__)

# System identifier and timeline in one number; NULL on a standby. A walfile's name begins with the timeline.
LINEAGE = statement(
    sqlite="SELECT NULL",
    postgresql="""
    SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE
        (SELECT system_identifier FROM pg_control_system())
        # CAST(CAST('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) AS BIT(32)) AS BIGINT)
    END""",
)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a set of tables notes its server, and the numbers that another server must not give out again.

    ``read`` and ``note`` use one row of ``table``. The first connection that notices another server runs
    ``steps``, under the lock that ``lock`` takes, and logs ``warning``.
    """

    table: Table
    lock: Statement
    read: Statement
    note: Statement
    steps: Sequence[Statement]
    warning: str

    async def greet(self, connection: AnyConnection) -> bool:
        """Check a new connection's server; return whether that is finished, or must be repeated.

        Raises:
            DBAPIError: the connection is gone.
        """
        try:
            ((lineage,),) = await fetch(connection, LINEAGE)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            _log.debug("this PostgreSQL does not say which server it is: %s", error.orig)
            return True
        if lineage is None or not await table_exists(connection, self.table):
            return False
        if [lineage] != [value for (value,) in await fetch(connection, self.read)]:
            await self._move(connection, lineage)
        return True

    async def _move(self, connection: AnyConnection, lineage: int) -> None:
        """Note another server; the first connection runs the steps before any number is given out."""
        await execute(connection, BEGIN)
        await fetch(connection, self.lock)
        stored = [value for (value,) in await fetch(connection, self.read)]
        if stored != [lineage]:
            if stored:
                for step in self.steps:
                    await execute(connection, step)
            try:
                await execute(connection, self.note, lineage=lineage)
            except DataError:
                # The tables belong to another program: their users will get that error.
                await execute(connection, ROLLBACK)
                return
        await execute(connection, COMMIT)
        if stored and stored != [lineage]:
            _log.warning(self.warning)


#: Of the history: its fences.
HISTORY = Lineage(
    table=META,
    lock=ONE_CREATOR,
    # Read the noted server.
    read=statement("SELECT value FROM doubtless_meta WHERE name = 'lineage'"),
    # Note the server.
    note=statement(
        "INSERT INTO doubtless_meta (name, value) VALUES ('lineage', :lineage)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    ),
    # Let fences go on after the microseconds since 1970; a claim takes longer than one.
    steps=[
        statement(
            sqlite="SELECT 1",
            postgresql="SELECT setval('doubtless_fences', GREATEST(last_value, {now} * 1000))"
            " FROM doubtless_fences",
        )
    ],
    warning="the document history is on another server than before (a standby was promoted, or a backup "
    "restored): messages are NEW again if their completion did not reach it; fences go on above all",
)
