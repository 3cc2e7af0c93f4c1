"""The anchor of a history: a row that nothing deletes. If it is missing, somebody emptied the table.

TRUNCATE and DELETE without a condition leave the other tables and the fences unchanged. Without the anchor,
nothing would show that messages run again. Each claim reads the anchor in its single statement.
"""

import logging

from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.statements.entries import ANCHOR, NOTE_ANCHORED, READ_ANCHORED
from history.sql.tables.history import Prepared

_log = logging.getLogger(__name__)


async def restore(database: Prepared, trigger: str) -> None:
    """Write the anchor again, and log that the history was emptied; only the first caller does so."""
    if await database.run("looking at the anchor", _restore, atomic=True):
        _log.critical(
            "the document history of %s was emptied: messages processed before are NEW again",
            trigger,
            extra={"trigger": trigger},
        )


async def _restore(connection: AnyConnection) -> bool:
    was_there = bool(await fetch(connection, READ_ANCHORED))
    is_first = bool(await fetch(connection, ANCHOR))
    if not was_there:
        await execute(connection, NOTE_ANCHORED)
    return was_there and is_first
