"""PostgreSQL: from a URL to an engine that notices a server which is gone, silent, or a standby.

Besides libpq's own options a URL may have ours, see :class:`Options`.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
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

#: The options of libpq unless the URL says otherwise: a server that is gone is noticed within half a minute.
LIBPQ = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    # The driver takes the database's own otherwise: SQL_ASCII, which it reads as bytes, or one that lacks the
    # characters of most messages.
    "client_encoding": "utf8",
}

#: How a session is set: within half a minute the server, too, notices a client that is gone, and ends its
#: transaction. What an old server does not have is left out.
SESSION = {
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30s",
    "client_connection_check_interval": "10s",
    # A plan that was prepared while a table had ten rows would scan it when it has a million.
    "enable_seqscan": "off",
    # Before PostgreSQL 18 a scan that there is no way round then seems so dear that it is compiled each time:
    # that takes half a second, where the scan of a small table takes a millisecond.
    "jit": "off",
    # As the driver writes bytes and lists. An old application's database may have them otherwise.
    "standard_conforming_strings": "on",
    "array_nulls": "on",
}

#: The time-outs of PostgreSQL's own that a URL may set, in its words: ``5s``, or milliseconds.
TIMEOUTS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
)

#: After how many seconds without a reply somebody asks whether the server still answers.
REPLY_TIMEOUT = 15.0

#: The most connections of one engine, and how many of them are kept while nobody uses them.
CONNECTIONS, KEPT = 100, 20

#: How long a call waits for one of the pool's connections before it looks around, in seconds. SQLAlchemy
#: wakes nobody when an attempt to connect has failed.
POOL_TIMEOUT = 5.0

#: PostgreSQL's read_only_sql_transaction: a standby's answer to a write.
READ_ONLY = "25006"

#: Under this key a connection remembers that a pooler stands between.
POOLED = "doubtless_pooled"

# All settings of a session in one round trip; none where the backend is not the one that was connected to: a
# pooler stands between, and a session is somebody else's a moment later.
CONFIGURE = (
    "SELECT set_config(s.name, w.value, false) FROM pg_settings AS s"
    " JOIN json_each_text(CAST(%s AS json)) AS w (name, value) ON s.name = w.name"
    " WHERE pg_backend_pid() = %s"
)

#: Several hosts, of which at least one has a port: SQLAlchemy reads them from the query only.
_HOSTS = re.compile(r"(postgres[^:/?#]*://)((?:[^/?#]*@)?)([^/?#@]*,[^/?#@]*)((?:/[^?#]*)?)(?:\?(.*))?")


@dataclass(frozen=True, slots=True)
class Options:
    """What a URL says that is not for libpq.

    - ``reply_timeout``: after how many seconds without a reply another connection asks whether the server
      still answers; 0 is never.
    - ``connections``: the most connections of one engine; who needs one more waits for it.
    - ``session``: the time-outs of :data:`TIMEOUTS`.
    """

    reply_timeout: float
    connections: int
    session: Mapping[str, str]

    @classmethod
    def of(cls, url: URL) -> Self:
        """Read them.

        Raises:
            ConfigurationError: one is not valid.
        """
        return cls(
            _number(url, "reply_timeout", float, REPLY_TIMEOUT, least=0),
            int(_number(url, "connections", int, CONNECTIONS, least=1)),
            {name: str(url.query[name]) for name in TIMEOUTS if name in url.query},
        )


_OURS = {"reply_timeout", "connections", *TIMEOUTS}


def _number(url: URL, name: str, kind: type[float], default: float, *, least: int) -> float:
    value = url.query.get(name)
    if value is None:
        return default
    with suppress(ValueError):
        number = kind(str(value))
        if least <= number < float("inf"):
            return number
    raise ConfigurationError(name, f"{value!r} in the URL cannot be used", f"give a number, {least} or more")


def with_hosts(url: str) -> str:
    """Return a URL with several hosts as SQLAlchemy reads it; any other as it is."""
    found = _HOSTS.fullmatch(url)
    if found is None or ":" not in found[3]:
        return url
    hosts = "&".join(f"host={host}" for host in (h if ":" in h else f"{h}:5432" for h in found[3].split(",")))
    return f"{found[1]}{found[2]}{found[4]}?{hosts}" + (f"&{found[5]}" if found[5] else "")


def open_postgresql(url: URL, *, asyncio: bool) -> Engine | AsyncEngine:
    """Make an engine; nothing is connected yet.

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
        "pool_size": kept,
        "max_overflow": options.connections - kept,
    }
    url = url.set(drivername="postgresql+psycopg", query=LIBPQ | url.query)
    try:
        engine = create_async_engine(url, **settings) if asyncio else create_engine(url, **settings)
        pooled = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
        _Connections(pooled, options, waits=asyncio)
    except ImportError as error:  # also where the package is there and its libpq is not
        raise MissingExtraError("postgresql://", extra="postgres", package="psycopg[binary]") from error
    event.listen(pooled, "handle_error", _leave_a_standby)
    return engine


class _Connections:
    """How an engine connects, and what is done with a new connection."""

    def __init__(self, engine: Engine, options: Options, *, waits: bool) -> None:
        pool = engine.pool
        patience = Patience(options.reply_timeout, lambda: has_answer(pool, waits=waits))
        self._blocking, self._asyncio = connectors(patience)
        self._timeouts = options.session
        event.listen(engine, "do_connect", self.connect)
        event.listen(engine, "connect", self.configure)

    def connect(
        self, dialect: Dialect, _record: ConnectionPoolEntry, words: Any, named: dict[str, Any]
    ) -> DBAPIConnection:
        """Connect, with a short time-out where it is a probe that connects."""
        libpq = {name: value for name, value in named.items() if name not in _OURS}
        if PROBING.get():
            libpq["connect_timeout"] = PROBE_TIMEOUT
        if dialect.is_async:
            return dialect.connect(*words, **libpq, async_creator_fn=self._asyncio)
        connection: DBAPIConnection = self._blocking(*words, **libpq)
        return connection

    def configure(self, connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        """Set the session; behind a pooler, do without what needs one.

        Raises:
            ConfigurationError: the URL asks for what a pooler does not keep.
        """
        driver: Any = record.driver_connection
        cursor = connection.cursor()
        cursor.execute(CONFIGURE, (json.dumps({**SESSION, **self._timeouts}), driver.info.backend_pid))
        is_direct = cursor.fetchone() is not None
        cursor.close()
        if is_direct:
            return
        # PgBouncer gives each transaction another backend, which has not prepared what the last one has.
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
    """Take a server that does not write for one that is gone, and with it all that is in the pool.

    After a failover behind one name or address an open connection may lead to what is a standby now; a new
    one leads to the new primary.
    """
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True
