"""A file of SQLite that another process has locked: one write waits for it, and the next ones do not.

Each write waits for the lock, at most for ``?timeout=``. The writes of one message and the renewals of its
lease wait for one connection, so their waits would add up to minutes. After a write has waited in vain, the
next ones wait only a moment, until one succeeds.
"""

from typing import Any

from history.bridge import settled
from history.sql.database.errors import is_locked

#: How long a write waits for the lock if the write before it has waited in vain, in milliseconds.
MOMENT = 100

#: Under this key a connection remembers how long its writes usually wait, in milliseconds.
_USUAL = "doubtless_usual_wait"


async def shorten_wait(connection: Any, error: BaseException) -> None:
    """After a write that waited in vain for the lock, let the next one wait only a moment."""
    if is_locked(error) and _USUAL not in connection.info:
        result = await settled(connection.exec_driver_sql("PRAGMA busy_timeout"))
        connection.info[_USUAL] = int(result.scalar())
        await _wait_for(connection, MOMENT)


async def restore_wait(connection: Any) -> None:
    """After a write that succeeded, let the next one wait as usual."""
    if _USUAL in connection.info:
        await _wait_for(connection, connection.info.pop(_USUAL))


async def _wait_for(connection: Any, milliseconds: int) -> None:
    await settled(connection.exec_driver_sql(f"PRAGMA busy_timeout = {milliseconds}"))
