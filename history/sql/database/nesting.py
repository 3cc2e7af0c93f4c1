"""Calls of a history from inside its own transaction: a service calls a trigger.

Such a call is not part of the transaction, because its result must survive a rollback. On SQLite it would
wait for the single writer, which waits for it: it is refused immediately. On PostgreSQL it uses another
connection. It does not wait for a full pool, and not long for a lock that the transaction itself has.
"""

from contextvars import ContextVar
from dataclasses import dataclass

from sqlalchemy import Engine, Pool
from sqlalchemy.ext.asyncio import AsyncEngine

from history.errors import ConfigurationError
from history.sql.database.forks import pooled_of
from history.sql.database.paths import file_of
from history.sql.statements.dialects import Dialect, statement

#: The first statement of a step or transaction that may meet locks of the surrounding transaction.
DO_NOT_WAIT_LONG = statement(sqlite="SELECT 1", postgresql="SET LOCAL lock_timeout = '5s'")


@dataclass(slots=True, eq=False)
class Service:
    """A service that runs inside a transaction: the pool of its connection, and the file if it is SQLite."""

    pool: Pool
    file: str | None
    runs: bool = True


#: The services around this code. A task that outlives its service still has it here.
_AROUND: ContextVar[tuple[Service, ...]] = ContextVar("_AROUND", default=())


def enter(engine: Engine | AsyncEngine) -> Service:
    """Note that a service begins to run here, in a transaction on a connection of ``engine``."""
    pooled = pooled_of(engine)
    service = Service(pooled.pool, _file(pooled))
    _AROUND.set((*(other for other in _AROUND.get() if other.runs), service))
    return service


def leave(service: Service) -> None:
    """Note that it has ended."""
    service.runs = False
    _AROUND.set(tuple(other for other in _AROUND.get() if other.runs))


def is_inside(engine: Engine | AsyncEngine, doing: str, *, writes: bool) -> bool:
    """Return whether a step on ``engine`` comes from inside a transaction on it, and may run outside of it.

    Raises:
        ConfigurationError: it would wait for that transaction.
    """
    around = _AROUND.get()
    if not around:
        return False
    pooled = pooled_of(engine)
    inside = [service for service in around if service.runs and service.pool is pooled.pool]
    if pooled.dialect.name != Dialect.SQLITE:
        return bool(inside)
    file = _file(pooled)
    if inside or (writes and file and any(service.runs and service.file == file for service in around)):
        raise ConfigurationError(
            "history",
            f"{doing} inside an atomic service of the same SQLite database would wait for that service",
            "do it after the service, send a message instead (SqlJms.sending), or use another database",
        )
    return False


def _file(engine: Engine) -> str | None:
    return file_of(engine.url) if engine.dialect.name == Dialect.SQLITE else None
