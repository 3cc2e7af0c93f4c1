"""The circuit for a database: a thread of the circuit finds out whether it answers again."""

import asyncio
from functools import partial

from sqlalchemy import URL, Engine, Pool, event
from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import greenlet_spawn

from history.circuit import Circuit
from history.errors import ConfigurationError
from history.sql.database.errors import is_unanswered, translated
from history.sql.database.silence import is_no_reply


def server_of(url: URL) -> str:
    """Return the server of a URL, or all its servers, as text."""
    hosts = url.query.get("host", f"{url.host or 'localhost'}:{url.port or 5432}")
    return hosts if isinstance(hosts, str) else ",".join(hosts)


def circuit_for(engine: Engine | AsyncEngine, *, enabled: bool) -> Circuit:
    """Return the circuit for an engine's server; a file of SQLite has none: nothing connects to it."""
    url, waits = engine.url, isinstance(engine, AsyncEngine)
    sync_engine = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    circuit = Circuit(
        f"PostgreSQL at {server_of(url)}/{url.database or ''}",
        partial(answers, sync_engine, waits=waits),
        enabled=enabled and engine.dialect.name == "postgresql",
    )
    if circuit.enabled:
        event.listen(sync_engine, "handle_error", _Alarm(circuit))
    return circuit


class _Alarm:
    """Opens the circuit if a server was given up in the middle of a statement."""

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit

    def __call__(self, context: ExceptionContext) -> None:
        if is_no_reply(context.original_exception):
            self._circuit.open(Exception(str(context.original_exception)))


def answers(engine: Engine, *, waits: bool) -> bool:
    """Run SELECT 1 over a fresh connection, made as the engine makes its own; block until there is an answer.

    A refusal that waiting would not change also counts as an answer: the next call will meet it.
    """
    try:
        _ask(engine.pool.recreate(), waits=waits)
    except Exception as error:
        wrapped = DBAPIError("SELECT 1", None, error)
        if isinstance(translated(wrapped, "probing"), ConfigurationError):
            return True
        raise
    return True


def has_answer(pool: Pool, *, waits: bool) -> bool:
    """Return whether a server answers at all, even if only that it has too many connections; blocks."""
    try:
        _ask(pool.recreate(), waits=waits)
    except Exception as error:  # noqa: BLE001  (drivers raise errors of many kinds)
        return not is_unanswered(DBAPIError("SELECT 1", None, error))
    return True


def _ask(pool: Pool, *, waits: bool) -> None:
    if waits:
        # A new event loop: the application's may be busy, or may have ended.
        asyncio.run(_select_async(pool))
    else:
        _select(pool)


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
