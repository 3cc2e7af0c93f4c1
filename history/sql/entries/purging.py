"""How a SQL history is purged: a piece of limited size at a time.

First the entries, in the order of their expiry; then the ledger, in the order of its numbers. A cursor is
``"entries <milliseconds>"``, the first instant, or ``"batches <number>"``, the last number before it.
"""

from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.statements.entries import BATCHES_AHEAD, PURGE, PURGE_AHEAD, PURGE_BATCHES
from history.store import Purged

#: How many rows a piece looks at.
PIECE = 500

#: The cursor at the beginning of a purge, and the cursor after the last entry.
ENTRIES, BATCHES = "entries 0", "batches 0"


async def purge_some(connection: AnyConnection, *, trigger: str, cursor: str | None) -> Purged:
    """Do one piece of a purge; see :meth:`history.store.HistoryStore.purge_some`."""
    kind, _, position = (cursor or ENTRIES).partition(" ")
    purge = _purge_entries if kind == "entries" else _purge_batches
    return await purge(connection, trigger, int(position))


async def _purge_entries(connection: AnyConnection, trigger: str, after: int) -> Purged:
    named = {"after": after, "limit": PIECE}
    rows = await fetch(connection, PURGE, trigger=trigger, **named)
    if rows:
        return Purged(sum(fence > 0 for (fence,) in rows), f"entries {after}")
    ((seen, last),) = await fetch(connection, PURGE_AHEAD, **named)
    # None of these belong to the trigger, so they are skipped. All entries of a batch expire at one instant.
    return Purged(0, BATCHES if seen < PIECE else f"entries {max(last, after + 1)}")


async def _purge_batches(connection: AnyConnection, trigger: str, after: int) -> Purged:
    ((seen, last),) = await fetch(connection, BATCHES_AHEAD, after=after, limit=PIECE)
    if seen:
        await execute(connection, PURGE_BATCHES, trigger=trigger, after=after, last=last)
    return Purged(0, None if seen < PIECE else f"batches {last}")
