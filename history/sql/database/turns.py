"""Connections of a full pool, in the order in which they are asked for.

SQLAlchemy's pools give a connection that came back to whoever asks first, and that is as a rule the thread or
task which has just given it back: on SQLite, which has one connection, one busy thread would keep all others
from it for as long as it is busy. So who meets a full pool takes a turn, and waits for the pool alone; all
others wait behind it.
"""

import asyncio
from collections.abc import Awaitable
from typing import Protocol
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Pool, QueuePool
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from history.bridge import settled
from history.support.fair import FairSemaphore


class _Turn(Protocol):
    """A lock of either kind."""

    def acquire(self) -> Awaitable[bool] | bool: ...

    def release(self) -> None: ...

    def locked(self) -> bool: ...


#: The turn of each pool; a forked child has pools of its own, and so turns that no parent's thread holds.
_turns: "WeakKeyDictionary[Pool, _Turn]" = WeakKeyDictionary()


async def connect_in_turn(engine: Engine | AsyncEngine) -> Connection | AsyncConnection:
    """Return a connection of the engine's pool; where all are in use, after those who asked before.

    Raises:
        TimeoutError: (SQLAlchemy's) none came back while it was this one's turn.
        DBAPIError: it cannot be made.
    """
    pool = engine.pool
    if not isinstance(pool, QueuePool):
        return await settled(engine.connect())
    turn = _turn_of(pool, waits=isinstance(engine, AsyncEngine))
    if not turn.locked() and not _is_full(pool):
        return await settled(engine.connect())
    await settled(turn.acquire())
    try:
        return await settled(engine.connect())
    finally:
        turn.release()


def _turn_of(pool: Pool, *, waits: bool) -> _Turn:
    turn = _turns.get(pool)
    return (
        turn if turn is not None else _turns.setdefault(pool, asyncio.Lock() if waits else FairSemaphore(1))
    )


def _is_full(pool: QueuePool) -> bool:
    # Told nowhere else; -1 is without end.
    beyond = pool._max_overflow  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return beyond >= 0 and pool.checkedout() >= pool.size() + beyond
