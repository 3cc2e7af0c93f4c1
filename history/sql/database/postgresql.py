"""PostgreSQL: from a URL to an engine that notices a server that is gone, silent, or a standby.

A URL may have libpq's options and ours, see :class:`Options`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from history.circuit import PROBE_TIMEOUT, PROBING
from history.errors import ConfigurationError, MissingExtraError
from history.sql.database.probe import has_answer
from history.sql.database.silence import Patience, connectors
from history.support.urls import number_in

#: The options of libpq unless the URL sets others: the engine notices a lost server within half a minute.
LIBPQ = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    # Otherwise the driver uses the database's encoding: SQL_ASCII, which it reads as bytes, or one that lacks
    # the characters of most messages.
    "client_encoding": "utf8",
}

#: The settings of a session: the server also notices a lost client within half a minute, and ends its
#: transaction. Settings that an old server does not have are left out.
SESSION = {
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30s",
    "client_connection_check_interval": "10s",
    # A plan that was prepared for a table of ten rows would still scan it at a million rows.
    "enable_seqscan": "off",
    # Before PostgreSQL 18, a scan that cannot be avoided then looks so expensive that it is compiled each
    # time. That takes half a second; the scan of a small table takes a millisecond.
    "jit": "off",
    # The driver writes bytes and lists in this form. A database of an old application may use the other one.
    "standard_conforming_strings": "on",
    "array_nulls": "on",
}

#: The time-outs of PostgreSQL that a URL may set, in PostgreSQL's format: ``5s``, or milliseconds.
TIMEOUTS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
)

#: After how many seconds without a reply a thread checks whether the server still answers.
REPLY_TIMEOUT = 15.0

#: The most connections of one engine, and how many of them stay open while nobody uses them.
CONNECTIONS, KEPT = 100, 20

#: How long a call waits for a connection of the pool before it checks the pool, in seconds. SQLAlchemy does
#: not wake anybody after a failed attempt to connect.
POOL_TIMEOUT = 5.0

#: PostgreSQL's read_only_sql_transaction: a standby's answer to a write.
READ_ONLY = "25006"

#: Under this key a connection remembers that there is a pooler in between.
POOLED = "doubtless_pooled"

# All settings of a session in one round trip. None if this is another backend than at the start: then there
# is a pooler in between, and another client has the session a moment later.
CONFIGURE = (
    "SELECT set_config(s.name, w.value, false) FROM pg_settings AS s"
    " JOIN json_each_text(CAST(%s AS json)) AS w (name, value) ON s.name = w.name"
    " WHERE pg_backend_pid() = %s"
)

#: Several hosts, at least one of them with a port: SQLAlchemy reads these only from the query.
_HOSTS = re.compile(r"(postgres[^:/?#]*://)((?:[^/?#]*@)?)([^/?#@]*,[^/?#@]*)((?:/[^?#]*)?)(?:\?(.*))?")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a URL that are not for libpq.

    - ``reply_timeout``: after how many seconds without a reply another connection probes whether the server
      still answers; 0 is never.
    - ``connections``: the most connections of one engine; a caller that needs one more waits for it.
    - ``session``: the time-outs of :data:`TIMEOUTS`.
    """

    reply_timeout: float
    connections: int
    session: Mapping[str, str]

    @classmethod
    def of(cls, url: URL) -> Self:
        """Read the options of a URL.

        Raises:
            ConfigurationError: one is not valid.
        """
        return cls(
            number_in(url.query, "reply_timeout", float, REPLY_TIMEOUT, least=0),
            int(number_in(url.query, "connections", int, CONNECTIONS, least=1)),
            {name: str(url.query[name]) for name in TIMEOUTS if name in url.query},
        )


_OURS = {"reply_timeout", "connections", *TIMEOUTS}


def with_hosts(url: str) -> str:
    """Return a URL with several hosts in SQLAlchemy's form; any other URL unchanged."""
    parts = _HOSTS.fullmatch(url)
    if parts is None or ":" not in parts[3]:
        return url
    hosts = "&".join(f"host={host}" for host in (h if ":" in h else f"{h}:5432" for h in parts[3].split(",")))
    return f"{parts[1]}{parts[2]}{parts[4]}?{hosts}" + (f"&{parts[5]}" if parts[5] else "")


def open_postgresql(
    url: URL, *, asyncio: bool, connect_args: Mapping[str, Any] | None = None
) -> Engine | AsyncEngine:
    """Make an engine; it does not connect yet.

    Raises:
        ConfigurationError: an option is not valid, or (MissingExtraError) the driver is missing.
    """
    options = Options.of(url)
    kept = min(KEPT, options.connections)
    settings: dict[str, Any] = {
        "isolation_level": "AUTOCOMMIT",
        "hide_parameters": True,  # in the texts of errors, which go into logs
        "pool_use_lifo": True,
        "pool_timeout": POOL_TIMEOUT,
        "connect_args": dict(connect_args or {}),
        "pool_size": kept,
        "max_overflow": options.connections - kept,
    }
    url = url.set(drivername="postgresql+psycopg", query=LIBPQ | url.query)
    try:
        engine = create_async_engine(url, **settings) if asyncio else create_engine(url, **settings)
        pooled = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
        _Connections(pooled, options, waits=asyncio)
    except ImportError as error:  # also if the package is installed without its libpq
        raise MissingExtraError("postgresql://", extra="postgres", package="psycopg[binary]") from error
    event.listen(pooled, "handle_error", _leave_a_standby)
    return engine


class _Connections:
    """How an engine connects and prepares new connections."""

    def __init__(self, engine: Engine, options: Options, *, waits: bool) -> None:
        pool = engine.pool
        patience = Patience(options.reply_timeout, lambda: has_answer(pool, waits=waits))
        self._blocking, self._asyncio = connectors(patience)
        self._timeouts = options.session
        event.listen(engine, "do_connect", self.connect)
        event.listen(engine, "connect", self.configure)

    def connect(
        self, dialect: Dialect, _record: ConnectionPoolEntry, arguments: Any, named: dict[str, Any]
    ) -> DBAPIConnection:
        """Connect, with a short time-out during a probe."""
        libpq = {name: value for name, value in named.items() if name not in _OURS}
        if PROBING.get():
            libpq["connect_timeout"] = PROBE_TIMEOUT
        if dialect.is_async:
            return dialect.connect(*arguments, **libpq, async_creator_fn=self._asyncio)
        connection: DBAPIConnection = self._blocking(*arguments, **libpq)
        return connection

    def configure(self, connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        """Configure the session; behind a pooler, avoid everything that needs a session.

        Raises:
            ConfigurationError: the URL sets an option that a pooler does not keep.
        """
        driver: Any = record.driver_connection
        cursor = connection.cursor()
        cursor.execute(CONFIGURE, (json.dumps({**SESSION, **self._timeouts}), driver.info.backend_pid))
        is_direct = cursor.fetchone() is not None
        cursor.close()
        if is_direct:
            return
        # PgBouncer gives each transaction another backend, without the statements prepared on the last one.
        driver.prepare_threshold = None
        record.info[POOLED] = True
        if self._timeouts:
            connection.close()
            names = ", ".join(self._timeouts)
            raise ConfigurationError(
                names,
                "a pooler such as PgBouncer does not keep what a session is set to",
                "take it out of the URL, and set it for the role: ALTER ROLE ... SET ...",
            )


def _leave_a_standby(context: ExceptionContext) -> None:
    """Treat a server that does not write as lost, together with all connections of the pool.

    After a failover behind one name or address, an open connection may lead to the present standby. A new one
    leads to the new primary.
    """
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True
