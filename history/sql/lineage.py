"""Whether a PostgreSQL is still the one it was: a standby that was promoted, or a backup, is another one.

Each has a timeline or a system identifier of its own. A standby may lack the last commits of its primary, and
would grant their fences again; a process that starts after that has been granted none, and cannot tell
(see :mod:`history.sql.fences`). So the database notes which server it was on, every connection looks once,
and the first on another server has the fences go on above all that were ever granted.
"""

import logging

from sqlalchemy.exc import DBAPIError

from history.sql.database.engine import BEGIN, COMMIT, AnyConnection, execute, fetch
from history.sql.statements.dialects import statement
from history.sql.tables.history import META
from history.sql.tables.making import ONE_CREATOR, table_exists

_log = logging.getLogger(__name__)

# System identifier and timeline in one number; none on a standby. A walfile's name begins with the timeline.
LINEAGE = statement(
    sqlite="SELECT NULL",
    postgresql="""
    SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE
        (SELECT system_identifier FROM pg_control_system())
        # CAST(CAST('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) AS BIT(32)) AS BIGINT)
    END""",
)

# What was noted before.
READ = statement("SELECT value FROM doubtless_meta WHERE name = 'lineage'")

# Note it.
NOTE = statement(
    "INSERT INTO doubtless_meta (name, value) VALUES ('lineage', :lineage)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)

# Let fences go on after the microseconds since 1970; a claim takes longer than one.
STEP = statement(
    sqlite="SELECT 1",
    postgresql="SELECT setval('doubtless_fences', GREATEST(last_value, {now} * 1000)) FROM doubtless_fences",
)


async def greet(connection: AnyConnection) -> bool:
    """Look at a new connection's server; return whether that is done with, or has to be done again.

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
    if lineage is None or not await table_exists(connection, META):
        return False
    if [lineage] != [value for (value,) in await fetch(connection, READ)]:
        await _move(connection, lineage)
    return True


async def _move(connection: AnyConnection, lineage: int) -> None:
    """Note another server; the first who notices steps over the fences, before anybody is granted one."""
    await execute(connection, BEGIN)
    await fetch(connection, ONE_CREATOR)
    known = [value for (value,) in await fetch(connection, READ)]
    if known != [lineage]:
        if known:
            await fetch(connection, STEP)
        await execute(connection, NOTE, lineage=lineage)
    await execute(connection, COMMIT)
    if known and known != [lineage]:
        _log.warning(
            "the document history is on another server than before (a standby was promoted, or a backup "
            "restored): messages whose completion did not reach it are NEW again; fences go on above all"
        )
