"""The circuit before a database: whether it answers again, asked from a thread of the circuit's own."""

import asyncio
from functools import partial
from typing import Any

from sqlalchemy import Engine, Pool
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.util import greenlet_spawn

from history.circuit import PROBE_TIMEOUT, PROBING, Circuit
from history.errors import ConfigurationError
from history.sql.database.errors import translated


def circuit_for(engine: Engine | AsyncEngine, *, enabled: bool) -> Circuit:
    """Return the circuit before an engine's server; a file of SQLite is not connected to, and has none."""
    url, waits = engine.url, isinstance(engine, AsyncEngine)
    sync_engine = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    return Circuit(
        f"PostgreSQL at {url.host}:{url.port or 5432}/{url.database}",
        partial(answers, sync_engine, waits=waits),
        enabled=enabled and engine.dialect.name == "postgresql",
    )


def answers(engine: Engine, *, waits: bool) -> bool:
    """Run SELECT 1 over a fresh connection, made as the engine makes its own; block until there is an answer.

    A refusal that waiting would not change is an answer, too: the next call is to meet it.
    """
    pool = engine.pool.recreate()
    try:
        if waits:
            # An event loop of its own: the application's may be busy, or over.
            asyncio.run(_select_async(pool))
        else:
            _select(pool)
    except Exception as error:
        wrapped = DBAPIError("SELECT 1", None, error)
        if isinstance(translated(wrapped, "probing"), ConfigurationError):
            return True
        raise
    return True


async def _select_async(pool: Pool) -> None:
    await greenlet_spawn(_select, pool)


def _select(pool: Pool) -> None:
    connection = pool.connect()
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT 1")
        cursor.close()
    finally:
        connection.close()
        pool.dispose()


def hurry(
    dialect: Dialect, _record: ConnectionPoolEntry, words: Any, named: dict[str, Any]
) -> DBAPIConnection | None:
    """Connect with a short time-out where it is a probe that connects; for psycopg's event ``do_connect``."""
    if not PROBING.get():
        return None
    return dialect.connect(*words, **{**named, "connect_timeout": PROBE_TIMEOUT})
