"""Connections that callers give us, to write in their open transaction."""

from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection

#: psycopg's status of a connection without a transaction.
_IDLE: Final = 0


def callers_own(connection: AnyConnection) -> Connection:
    """Return the blocking connection that has a caller's transaction open.

    Raises:
        ConfigurationError: it is not started, or it commits each statement by itself.
    """
    blocking = connection.sync_connection if isinstance(connection, AsyncConnection) else connection
    if blocking is None:
        raise ConfigurationError("connection", "it is not connected", "await its start")
    driver: Any = blocking.connection.driver_connection
    if blocking.dialect.name == "sqlite":
        alone = driver.isolation_level is None and not driver.in_transaction
    else:
        alone = driver.autocommit and driver.info.transaction_status == _IDLE
    if alone:
        raise ConfigurationError(
            "connection",
            "has no transaction open, and commits each statement by itself",
            "begin a transaction first, or do not set AUTOCOMMIT",
        )
    return blocking
