"""How a SQL history is purged: a piece of limited size at a time.

First the entries, in the order of their expiry; then the ledger, in the order of its numbers. A cursor is
``"entries <milliseconds> <digest>"``, the last entry before it; on SQLite, ``"entries <milliseconds>"``, the
first instant; or ``"batches <number>"``, the last number before it.
"""

from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.statements.dialects import Dialect
from history.sql.statements.entries import BATCHES_AHEAD, PURGE, PURGE_AHEAD, PURGE_BATCHES
from history.store import Purged

#: How many rows a piece looks at.
PIECE = 500

#: The cursor at the beginning of a purge, and the cursor after the last entry.
ENTRIES, BATCHES = "entries 0", "batches 0"


async def purge_some(connection: AnyConnection, *, trigger: str, cursor: str | None) -> Purged:
    """Do one piece of a purge; see :meth:`history.store.HistoryStore.purge_some`."""
    stage, number, *rest = (cursor or ENTRIES).split(" ")
    if stage != "entries":
        return await _purge_batches(connection, trigger, int(number))
    if connection.dialect.name == Dialect.SQLITE:
        return await _purge_file(connection, trigger, int(number))
    return await _purge_entries(connection, trigger, int(number), bytes.fromhex("".join(rest)))


async def _purge_entries(connection: AnyConnection, trigger: str, after: int, key: bytes) -> Purged:
    rows = await fetch(connection, PURGE, trigger=trigger, after=after, key=key, limit=PIECE)
    for deleted, seen, last, last_key in rows:
        return Purged(deleted, BATCHES if seen < PIECE else f"entries {last} {bytes(last_key).hex()}")
    return Purged(0, BATCHES)


async def _purge_file(connection: AnyConnection, trigger: str, after: int) -> Purged:
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
