"""Move what triggers have captured into the log, whole transactions in an order in which they committed.

A change waits for its turn in ``doubtless_link_changes``. If triggers wrote into the log themselves, every
transaction would hold the log's counter from its first change to its end, and two could wait for each other.

PostgreSQL: transactions are sorted by their last change. If one has seen another's rows, it has changed
something after the other's commit, so it comes later. A transaction that commits after this statement began
is not seen, and is moved by the next one: a moved row is deleted, so none is skipped.

SQLite: a trigger cannot see where transactions end. All that was committed since the last move becomes one
transaction; work that an agent has applied is one of its own.
"""

from typing import Final

from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.statements.dialects import Dialect, statement
from history.sql.statements.watermark import MARK

# Whether there is anything to move.
WAITING: Final = statement("SELECT COUNT(*) FROM doubtless_link_changes WHERE publication = :publication")

# The end of the log; nobody publishes until this transaction ends.
LOCK_END: Final = statement(
    "UPDATE doubtless_link_end SET last_offset = last_offset WHERE id = 1 RETURNING last_offset"
)

# Nobody changes a captured table until this transaction ends.
LOCK_CHANGES: Final = statement(
    sqlite="SELECT 1", postgresql="LOCK TABLE doubtless_link_changes IN SHARE ROW EXCLUSIVE MODE"
)

_INTO_LOG = (
    "doubtless_link_log (commit_offset, publication, position, origin, committed_at, operation, subscriber)"
)

MOVE: Final = statement(
    sqlite=f"""INSERT INTO {_INTO_LOG}
    SELECT :last + dense_rank() OVER (ORDER BY work), publication,
        row_number() OVER (PARTITION BY work ORDER BY id) - 1, origin, {{now}}, operation, subscriber
    FROM doubtless_link_changes WHERE publication = :publication
    RETURNING commit_offset""",  # noqa: S608
    postgresql=f"""WITH moved AS (
        DELETE FROM doubtless_link_changes WHERE publication = :publication
        RETURNING id, work, publication, origin, operation, subscriber
    ), places AS (
        SELECT work, row_number() OVER (ORDER BY MAX(id)) AS place FROM moved GROUP BY work
    ), logged AS (
        INSERT INTO {_INTO_LOG}
        SELECT :last + place, publication, row_number() OVER (PARTITION BY work ORDER BY id) - 1,
            origin, {{now}}, operation, subscriber
        FROM moved JOIN places USING (work)
        RETURNING commit_offset
    ) SELECT MAX(commit_offset) FROM logged""",  # noqa: S608
)

FORGET: Final = statement("DELETE FROM doubtless_link_changes WHERE publication = :publication")

END_AT: Final = statement("UPDATE doubtless_link_end SET last_offset = :last, operations = 0 WHERE id = 1")


async def waiting(connection: AnyConnection, publication: str) -> int:
    """Return how many captured operations wait for their turn."""
    ((count,),) = await fetch(connection, WAITING, publication=publication)
    return int(count)


async def collect(connection: AnyConnection, publication: str, *, alone: bool = False) -> int:
    """Move captured changes into the log, in the open transaction, and return the log's last offset.

    ``alone`` first waits for the transactions that change captured tables, and lets no other begin.
    """
    if alone:
        await execute(connection, LOCK_CHANGES)
    ((last,),) = await fetch(connection, LOCK_END)
    moved = await fetch(connection, MOVE, last=last, publication=publication)
    offsets = [offset for (offset,) in moved if offset is not None]
    if not offsets:
        return int(last)
    await execute(connection, END_AT, last=max(offsets))
    if connection.dialect.name == Dialect.SQLITE:
        await execute(connection, FORGET, publication=publication)
        await execute(connection, MARK, origin=None)
    return int(max(offsets))
