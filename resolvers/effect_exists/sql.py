"""Does a row exist? Over any database that SQLAlchemy knows."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL, Connection, CursorResult, Engine, Row, TextClause, create_engine, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, ResourceClosedError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import NullPool

from history.bridge import settled
from history.errors import ConfigurationError, MissingExtraError
from resolvers.effect_exists.probe import EffectUnavailableError, Location, searched_by
from resolvers.resolution import Resolution, Resolved

_SETTING = "sql_row_exists"
_ROW_MEANS_YES = "select rows, not counts: SELECT 1 FROM bookings WHERE uuid = :uuid"


class SqlRow:
    """Looks for a row. Threads may share the engine; an asyncio engine belongs to one event loop."""

    def __init__(self, engine: str | Engine | AsyncEngine, statement: str, *, absent: Resolution) -> None:
        self._engine = engine_for(engine) if isinstance(engine, str) else engine
        self.awaits = isinstance(engine, AsyncEngine)
        self._statement = text(statement)
        self.location = Location(_redacted(self._engine.url), _binds(self._statement), absent)

    async def look(self, identities: Mapping[str, str], uuid: str) -> Resolved:
        """Run the statement: a row means that the effect happened."""
        row = await self._first(identities, uuid)
        if row is None:
            return self.location.lacks_it()
        # SELECT count(*) and SELECT EXISTS(...) return a row whether or not an effect exists. If that meant
        # "the row exists", every message would be a duplicate, and lost.
        if len(row) == 1 and (row[0] is None or row[0] == 0):
            raise ConfigurationError(_SETTING, f"its only column holds {row[0]!r}", _ROW_MEANS_YES)
        return self.location.has_it()

    async def _first(self, identities: Mapping[str, str], uuid: str) -> Row[Any] | None:
        connection = await self._connected(uuid)
        try:
            result: CursorResult[Any] = await settled(connection.execute(self._statement, dict(identities)))
            return result.first()
        except ResourceClosedError as error:
            raise ConfigurationError(_SETTING, "its statement returns no rows", _ROW_MEANS_YES) from error
        except DBAPIError as error:
            if _is_away(error):
                raise EffectUnavailableError(self.location.name, uuid) from error
            raise ConfigurationError(
                _SETTING, f"the database refused its statement ({error.orig})", "correct the statement"
            ) from error
        finally:
            await settled(connection.close())

    async def _connected(self, uuid: str) -> Connection | AsyncConnection:
        try:
            return await settled(self._engine.connect())
        except (DBAPIError, PoolTimeoutError, OSError) as error:
            raise EffectUnavailableError(self.location.name, uuid) from error


def engine_for(url: str) -> Engine:
    """Make a blocking engine that keeps no connection, because a resolver is seldom called.

    Raises:
        ConfigurationError: the URL is not valid, or its driver is for asyncio, or not installed.
    """
    # By default, SQLAlchemy 2.0 would look for psycopg2.
    scheme, separator, rest = url.partition("://")
    driver = "postgresql+psycopg" if scheme in ("postgresql", "postgres") else scheme
    try:
        engine = create_engine(driver + separator + rest, poolclass=NullPool)
    except (SQLAlchemyError, ValueError):
        # The text of these errors may contain the URL, and the URL a password.
        raise ConfigurationError(
            _SETTING, "its first argument is not a database URL", "write sqlite:///bookings.db or the like"
        ) from None
    except ModuleNotFoundError as error:
        raise _missing(error.name or driver) from error
    if engine.dialect.is_async:
        raise ConfigurationError(
            _SETTING, f"the driver {driver} is for asyncio", "give create_async_engine(url) instead of a URL"
        )
    return engine


def _missing(package: str) -> ConfigurationError:
    if package == "psycopg":
        return MissingExtraError(_SETTING, extra="postgres", package=package)
    return ConfigurationError(_SETTING, f"needs the package {package}", f"pip install {package}")


def _redacted(url: URL) -> str:
    """Return the URL without user, password and options."""
    return URL.create(url.drivername, host=url.host, port=url.port, database=url.database).render_as_string()


def _binds(statement: TextClause) -> frozenset[str]:
    return searched_by(_SETTING, statement.compile().params)


def _is_away(error: DBAPIError) -> bool:
    """Whether the database is unreachable or busy, in contrast to a wrong statement."""
    if isinstance(error.orig, sqlite3.Error):
        # SQLite also uses OperationalError for "no such table"; only the code tells it from "locked".
        return getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) != sqlite3.SQLITE_ERROR
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
