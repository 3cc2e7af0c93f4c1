"""Connections of the SQL history: from a URL to an engine, and from a driver's exception to our own.

Everything here serves blocking and asyncio engines, see :mod:`history.bridge`. Engines run in autocommit. On
PostgreSQL every step is one statement. On SQLite a step that writes opens its transaction itself with ``BEGIN
IMMEDIATE``, because SQLite does not let a reader become a writer that waits.
"""

import importlib.util
import inspect
import logging
import sqlite3
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from sqlalchemy import (
    URL,
    AsyncAdaptedQueuePool,
    Connection,
    CursorResult,
    Engine,
    QueuePool,
    Row,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from history.bridge import settled
from history.circuit import Circuit, is_on
from history.errors import ConfigurationError, HistoryUnavailableError, MissingExtraError
from history.shell import begin, or_undo, to_its_end
from history.sql.database.errors import is_conflict, is_unanswered, translated
from history.sql.database.files import (
    follow_file,
    if_settings_worked,
    make_private,
    note_written,
    restore_wait,
    shorten_wait,
    times_replaced,
)
from history.sql.database.forks import pooled_of, survive_forks
from history.sql.database.nesting import DO_NOT_WAIT_LONG, is_inside
from history.sql.database.paths import file_of
from history.sql.database.postgresql import open_postgresql, with_hosts
from history.sql.database.silence import is_no_reply
from history.sql.database.turns import LOOK_SECONDS, connect_in_turn, is_detached
from history.sql.statements.dialects import Dialect, Sql, Statement, statement
from history.support.urls import guarded, is_number_in, number_in, refuse_unknown

_log = logging.getLogger(__name__)

T = TypeVar("T")

AnyConnection = Connection | AsyncConnection
AnyEngine = Engine | AsyncEngine

#: A row of any shape.
AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"

#: Work on a connection.
Step = Callable[[AnyConnection], Awaitable[T]]

#: How long a step waits for another writer of the same SQLite file; ``?timeout=`` in the URL changes it.
BUSY_TIMEOUT_SECONDS = 10.0

#: The longest that SQLite can count, in milliseconds as a 32-bit number: with a longer one it would not wait.
LONGEST_BUSY_TIMEOUT = 2_147_483

#: The numbers that a socket may take, by the option of libpq; no system takes others.
_NUMBERS = {
    "port": range(1, 65_536),
    "keepalives_idle": range(32_768),
    "keepalives_interval": range(32_768),
    "keepalives_count": range(128),
    "tcp_user_timeout": range(2**31),
}

#: After how many pages of 4 KiB SQLite copies its write-ahead log into the file.
CHECKPOINT_PAGES = 8000

#: How much memory SQLite's cache may take, in KiB.
CACHE_KIB = 65_536

#: The first SQLite that has RETURNING, UPDATE FROM and, in every build, JSON.
OLDEST_SQLITE = (3, 38, 0)

#: The drivers that the statements were written for, by dialect.
DRIVERS = {("sqlite", "pysqlite"), ("sqlite", "aiosqlite"), ("postgresql", "psycopg")}

#: How an atomic step begins and ends.
BEGIN = statement(sqlite="BEGIN IMMEDIATE", postgresql="BEGIN")
COMMIT = statement("COMMIT")
ROLLBACK = statement("ROLLBACK")

#: How often a step is tried if other transactions conflict with it.
CONFLICT_ATTEMPTS = 20


#: The options of a SQLite URL: those of Python's driver, and those of SQLite's own file names, which it reads
#: only with ``uri=true`` and ``file:`` before the name; else they would be a part of the name.
SQLITE_OPTIONS = ("timeout", "detect_types", "cached_statements", "uri")
SQLITE_FILE_OPTIONS = ("mode", "cache", "psow", "nolock", "immutable", "vfs", "modeof")


def open_engine(url: str | URL, *, asyncio: bool, options: Sequence[str] = ("circuit",)) -> AnyEngine:
    """Make an engine for the history itself; it does not connect yet.

    ``options`` were taken out of the URL by the caller, for the error about an unknown one.

    Raises:
        ConfigurationError: not a URL of SQLite or PostgreSQL, or (MissingExtraError) a driver is missing.
    """
    if isinstance(url, str):
        with guarded(url, "history"):
            return _open_engine(url, asyncio=asyncio, options=options)
    return _open_engine(url, asyncio=asyncio, options=options)


def _check_numbers(url: URL) -> None:
    """Refuse numbers that no socket takes; libpq would report them as an outage."""
    port = [] if url.port is None else [str(url.port)]
    for name, allowed in _NUMBERS.items():
        given = url.query.get(name, ())
        texts = ",".join([given] if isinstance(given, str) else given).split(",")
        for text in [*filter(None, texts), *(port if name == "port" else [])]:
            if not is_number_in(text, allowed):
                least, most = allowed[0], allowed[-1]
                problem = f"the {name} in its URL must be a number from {least} to {most}, not {text[:50]!r}"
                raise ConfigurationError("history", problem, "correct it, or leave it out")


def open_twin(engine: AnyEngine, *, asyncio: bool) -> AnyEngine:
    """Make another engine for the same database, with the ``connect_args`` of a caller's engine.

    Raises:
        ConfigurationError: a function of the caller connects, or (MissingExtraError) a driver is missing.
    """
    sync = pooled_of(engine)
    creator = sync.pool._creator  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    names: Mapping[str, Any] = (
        inspect.getclosurevars(creator).nonlocals if inspect.isfunction(creator) else {}
    )
    if "cparams" not in names:  # SQLAlchemy's own function has them
        raise ConfigurationError(
            "engine", "connects by a creator=", f"give {'an asyncio' if asyncio else 'a blocking'} engine"
        )
    of_url = sync.dialect.create_connect_args(sync.url)[1]
    extra = {name: value for name, value in names["cparams"].items() if of_url.get(name) != value}
    return _open_engine(sync.url, asyncio=asyncio, options=("circuit",), connect_args=extra)


def _open_engine(
    url: str | URL, *, asyncio: bool, options: Sequence[str], connect_args: Mapping[str, Any] | None = None
) -> AnyEngine:
    try:
        parsed = parsed_url(url)
    except (ArgumentError, ValueError):  # their texts hold the URL
        raise ConfigurationError(
            "history", "its URL is not valid", "use sqlite:///file.db or postgresql://..."
        ) from None
    if parsed.get_backend_name() == Dialect.SQLITE and (parsed.host or parsed.username):
        raise ConfigurationError(
            "history", "a SQLite URL names no host", "use sqlite:///file.db, with three slashes"
        )
    if parsed.get_backend_name() == Dialect.SQLITE:
        is_uri = "uri" in parsed.query and str(parsed.database).startswith("file:")
        files = SQLITE_FILE_OPTIONS if is_uri else ()
        refuse_unknown(parsed.query, (*options, *SQLITE_OPTIONS, *files), "history")
        engine = _open_sqlite(parsed, asyncio=asyncio, connect_args=connect_args)
    elif parsed.drivername in {"postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg_async"}:
        _check_numbers(parsed)
        engine = open_postgresql(parsed, asyncio=asyncio, connect_args=connect_args)
    else:
        raise ConfigurationError(
            "history", f"cannot use {parsed.drivername}", "use sqlite:///file.db or postgresql://..."
        )
    _make_safe(engine)
    if engine.dialect.name == Dialect.SQLITE:
        # Last: a file that is known to be deleted is not made again.
        event.listen(pooled_of(engine), "do_connect", make_private)
    return engine


def parsed_url(url: str | URL) -> URL:
    """Read a URL, including one with several hosts and ports: ``postgresql://one:5432,two:5432/database``.

    Raises:
        ArgumentError, ValueError: it is not a URL.
    """
    return make_url(with_hosts(url) if isinstance(url, str) else url)


def split_circuit(url: str | URL) -> tuple[str | URL, bool]:
    """Return a URL without ``circuit=on|off``, which drivers do not know, and whether the circuit is on.

    Raises:
        ConfigurationError: the value is neither on nor off.
    """
    rest, value = split_option(url, "circuit")
    return rest, is_on(value)


def split_option(url: str | URL, name: str) -> tuple[str | URL, str | None]:
    """Return a URL without an option that drivers do not know, and the option's value, which may be empty."""
    try:
        parsed = parsed_url(url)
    except (ArgumentError, ValueError):
        return url, None  # open_engine raises the error
    value = parsed.query.get(name)
    if value is None and isinstance(url, str) and (name, "") in _pairs(url):
        value = ""  # SQLAlchemy ignores an empty value
    return parsed.difference_update_query([name]), None if value is None else str(value)


def _pairs(url: str) -> Sequence[tuple[str, str]]:
    return parse_qsl(url.partition("?")[2], keep_blank_values=True)


def _note_full(engine: AnyEngine, doing: str) -> None:
    if engine.dialect.name == Dialect.SQLITE:
        _log.warning(
            "%s waits for the connection: SQLite has one, and it is in use. If another process has locked "
            "the file, its transaction must end first. Otherwise use PostgreSQL, or lower the concurrency",
            doing,
        )
        return
    _log.warning(
        "%s waits for a connection: all of the pool are in use (%s): give the URL more ?connections=, or "
        "lower the trigger's concurrency",
        doing,
        engine.pool.status(),
    )


def in_memory(url: URL) -> bool:
    """Whether a SQLite URL has no file."""
    return file_of(url) is None


def _open_sqlite(url: URL, *, asyncio: bool, connect_args: Mapping[str, Any] | None) -> AnyEngine:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigurationError(
            "history",
            f"SQLite {sqlite3.sqlite_version} is too old",
            f"use a Python with SQLite {'.'.join(map(str, OLDEST_SQLITE))} or later, or PostgreSQL",
        )
    timeout = number_in(url.query, "timeout", float, BUSY_TIMEOUT_SECONDS, least=0)
    url = url.update_query_dict({"timeout": str(min(timeout, LONGEST_BUSY_TIMEOUT))})
    # One connection: SQLite has one writer, and threads that queue here wait less than threads that poll its
    # lock. In memory, it is also the only connection that sees the data.
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "pool_size": 1, "max_overflow": 0}
    options["hide_parameters"] = True  # in the texts of errors, which go into logs
    options["connect_args"] = dict(connect_args or {})
    if asyncio:
        if importlib.util.find_spec("aiosqlite") is None:
            raise MissingExtraError("sqlite:// for asyncio", extra="asyncio", package="aiosqlite")
        url = url.set(drivername="sqlite+aiosqlite")
        engine = create_async_engine(url, poolclass=AsyncAdaptedQueuePool, **options)
        event.listen(engine.sync_engine, "connect", _configure_sqlite)
        return engine
    options["connect_args"]["check_same_thread"] = False
    options["pool_timeout"] = LOOK_SECONDS
    blocking = create_engine(url.set(drivername="sqlite"), poolclass=QueuePool, **options)
    event.listen(blocking, "connect", _configure_sqlite)
    return blocking


def _configure_sqlite(connection: DBAPIConnection, _record: object) -> None:
    # NORMAL would also survive kill -9, but a power cut could undo the last commits. If a completion is
    # undone, its message is NEW when it is delivered again.
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA synchronous = FULL")
        # Digests are spread over the index: the more claims share a checkpoint, the fewer pages it writes.
        cursor.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        cursor.execute(f"PRAGMA cache_size = {-CACHE_KIB}")
        cursor.close()
    except BaseException:
        # The pool forgets it, and aiosqlite's thread for it would never end.
        connection.close()
        raise


def _make_safe(engine: AnyEngine) -> None:
    """Make an engine survive forks, files that are replaced, and tasks that are cancelled."""
    survive_forks(engine)
    follow_file(engine)
    if engine.dialect.name == Dialect.SQLITE:
        pool = pooled_of(engine).pool
        if not event.contains(pool, "invalidate", _roll_back_first):
            event.listen(pool, "invalidate", _roll_back_first)


def _roll_back_first(connection: DBAPIConnection, _record: object, _error: object) -> None:
    # If a statement that returns rows is cut off, it closes only with its last cursor, maybe at the next
    # garbage collection. Until then its transaction would keep all others from writing.
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.Error):  # it is closed
            connection.rollback()
        return
    rolling = _rolled_back(connection.driver_connection)
    try:
        begin(rolling)
    except RuntimeError:  # the garbage collector took it outside of its event loop
        rolling.close()


async def _rolled_back(driver: Any) -> None:
    with suppress(ValueError, sqlite3.Error):  # it is closed, or has nothing to roll back
        await driver.rollback()


def refuse_other_drivers(engine: AnyEngine) -> None:
    """Refuse an engine for another database or driver; make an accepted one safe, see :func:`_make_safe`.

    Raises:
        ConfigurationError: the engine is refused.
    """
    if isinstance(engine, str | URL):  # a user may pass any object
        raise ConfigurationError(
            "history", "this needs an engine of SQLAlchemy, not a URL", "use open_history(URL)"
        )
    if (engine.dialect.name, engine.dialect.driver) not in DRIVERS:
        raise ConfigurationError(
            "history",
            f"{engine.dialect.name} with the driver {engine.dialect.driver} is not supported",
            "give it an engine for SQLite (pysqlite, aiosqlite) or PostgreSQL (psycopg)",
        )
    _make_safe(engine)


async def fetch(connection: AnyConnection, statement: Statement, **values: object) -> Sequence[AnyRow]:
    """Run a statement and return its rows."""
    return (await _execute(connection, statement[connection.dialect.name], values)).all()


async def execute(connection: AnyConnection, statement: Statement, **values: object) -> None:
    """Run a statement that has no rows to return."""
    await _execute(connection, statement[connection.dialect.name], values)


async def execute_each(
    connection: AnyConnection, statement: Statement, rows: Sequence[Mapping[str, object]]
) -> None:
    """Run a statement for each of many rows."""
    await _execute(connection, statement[connection.dialect.name], rows)


async def _execute(
    connection: AnyConnection, sql: Sql, values: Mapping[str, object] | Sequence[Mapping[str, object]]
) -> CursorResult[*tuple[Any, ...]]:
    text, order = sql.compiled(connection.dialect)
    parameters: Any = values
    if order is not None:
        rows = [values] if isinstance(values, Mapping) else values
        tuples = [tuple([row[name] for name in order]) for row in rows]
        parameters = tuples[0] if isinstance(values, Mapping) else tuples
    return await settled(connection.exec_driver_sql(text, parameters))


async def driver_of(connection: AnyConnection) -> Any:
    """Return the driver's own connection, of psycopg, sqlite3 or aiosqlite; None if it is gone."""
    if isinstance(connection, AsyncConnection):
        adapted: Any = (await connection.get_raw_connection()).dbapi_connection
        return None if adapted is None else adapted.driver_connection
    return connection.connection.dbapi_connection


async def give_back(connection: AnyConnection) -> None:
    """Give a connection back to its pool, or close it if a service has detached it."""
    if is_detached(connection):
        await hang_up(connection)
    else:
        await settled(connection.close())


async def hang_up(connection: AnyConnection) -> None:
    """Close a connection that has left the pool for good, and that may be broken."""
    with suppress(DBAPIError, OSError):
        # A connection that was invalidated is closed already: this would open a new one.
        if isinstance(connection, AsyncConnection) and not connection.invalidated:
            # The pool leaves a detached asyncio connection open.
            await (await driver_of(connection)).close()
    with suppress(DBAPIError, OSError):
        await settled(connection.close())


async def _closing_for_certain(connection: Connection, doing: Awaitable[T]) -> T:
    """Run code that gives a connection back at its end; if it is cut off, give the connection back.

    A signal handler may raise anywhere, even on the way to the end of a ``finally``.
    """
    try:
        return await doing
    except BaseException:
        if not connection.closed:
            with suppress(Exception):
                connection.close()
        raise


class Database(Protocol):
    """Access to the database: connections of our own, or the connection of a caller's transaction."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of SQL to use."""
        ...

    @property
    def times_replaced(self) -> int:
        """How often another file replaced the known one; afterwards everything must be made again."""
        ...

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:
        """Do one step; ``atomic`` if it has several statements that must succeed or fail together.

        Raises:
            HistoryUnavailableError: the server did not answer, or cannot do it at present.
            ConfigurationError: with these settings it never will.
        """
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


@dataclass(slots=True)
class _Wanted:
    """Whether anybody still waits for a step."""

    still: bool = True

    def check(self) -> None:
        """End the step if nobody waits."""
        if not self.still:
            raise CancelledError


#: Under this key a connection remembers that ``greet`` is done.
_GREETED = "doubtless_greeted"

#: The circuit of a database without one.
NO_CIRCUIT = Circuit("nothing", bool, enabled=False)


@dataclass(frozen=True, slots=True)
class Pooled:
    """Runs each step on a connection from the pool, and commits it at the end."""

    engine: AnyEngine
    disposable: bool
    circuit: Circuit = NO_CIRCUIT
    #: The first step on each new connection; it returns whether it is done.
    greet: Step[bool] | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect of SQL to use."""
        return Dialect(self.engine.dialect.name)

    @property
    def times_replaced(self) -> int:
        """How often a file of SQLite was replaced by another one; see :class:`Database`."""
        return times_replaced(self.engine)

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:
        """Do one step; repeat it if the connection had died in the pool, or after a conflict."""
        # Every write may be sent twice, so it does not matter whether the first attempt arrived.
        died, attempts = False, 0
        while True:
            try:
                return await self._once(doing, step, atomic=atomic)
            except DBAPIError as error:
                attempts += 1
                conflicts = is_conflict(error) and attempts < CONFLICT_ATTEMPTS
                first_death = error.connection_invalidated and not died and not is_no_reply(error.orig)
                if not conflicts and not first_death:
                    raise if_settings_worked(self.engine, translated(error, doing), doing) from error
                died = died or error.connection_invalidated

    async def connect(self, doing: str, *, inside: bool = False) -> AnyConnection:
        """Return a connection from the pool; if the server does not answer, later calls fail fast.

        A caller ``inside`` a transaction of this pool does not wait for others to return connections.

        Raises:
            HistoryUnavailableError: no server answered now, or (CircuitOpenError) earlier.
            ConfigurationError: with these settings it cannot be made.
        """
        connecting = self._connect(doing, inside=inside)
        if isinstance(self.engine, Engine):
            return await connecting
        # If connecting or greeting were cut off, the driver would leave a connection that nobody closes.
        return await or_undo(connecting, give_back)

    async def _connect(self, doing: str, *, inside: bool) -> AnyConnection:
        conflicts = 0
        while True:
            if self.circuit.is_open:
                self.circuit.refuse(doing)
            try:
                connecting = connect_in_turn(self.engine, at_once=inside, replaces=self._may_replace)
                return await self._greeted(await connecting)
            except PoolTimeoutError as error:
                if inside:
                    raise HistoryUnavailableError(doing) from error
                # All are in use: one comes back when a service ends. This tells nothing about the server.
                _note_full(self.engine, doing)
            except DBAPIError as error:
                if is_conflict(error) and conflicts < CONFLICT_ATTEMPTS:
                    conflicts += 1  # of two greetings at the same time, if everything is serializable
                    continue
                if is_unanswered(error):
                    self.circuit.open(error.orig or error)
                raise if_settings_worked(self.engine, translated(error, doing), doing) from error

    def _may_replace(self) -> bool:
        """Whether the pool is ours only, and its data survive without it."""
        return self.disposable and (self.dialect is not Dialect.SQLITE or not in_memory(self.engine.url))

    async def _greeted(self, connection: AnyConnection) -> AnyConnection:
        if self.greet is None or connection.info.get(_GREETED):
            return connection
        try:
            if await self.greet(connection):
                connection.info[_GREETED] = True
        except BaseException:
            await give_back(connection)
            raise
        return connection

    async def _once(self, doing: str, step: Step[T], *, atomic: bool) -> T:
        inside = is_inside(self.engine, doing, writes=atomic)
        connection = await self.connect(doing, inside=inside)
        wanted = _Wanted()
        doing_it = self._step_on(connection, step, wanted, atomic=atomic, inside=inside)
        if isinstance(connection, Connection):
            return await _closing_for_certain(connection, doing_it)
        if self.dialect is not Dialect.SQLITE:
            return await doing_it
        try:
            # If it is cut off, aiosqlite's thread goes on with it anyway. PostgreSQL's driver cancels it.
            return await to_its_end(doing_it)
        except CancelledError:
            wanted.still = False
            raise

    async def _step_on(
        self, connection: AnyConnection, step: Step[T], wanted: _Wanted, *, atomic: bool, inside: bool
    ) -> T:
        """Do a step and give its connection back; if nobody wants the result any more, roll back."""
        try:
            if not atomic and not inside:
                return await step(connection)
            await execute(connection, BEGIN)
            if inside:
                await execute(connection, DO_NOT_WAIT_LONG)
            wanted.check()
            answer = await step(connection)
            wanted.check()
            await execute(connection, COMMIT)
        except DBAPIError as error:
            if atomic:
                await shorten_wait(connection, error)
            raise
        else:
            if self.dialect is Dialect.SQLITE:
                note_written(self.engine)
                await restore_wait(connection)
            return answer
        finally:
            # The pool rolls back a transaction that an error left open.
            await settled(connection.close())

    async def close(self) -> None:
        """End the circuit's probing, and close the pool if it belongs to the history."""
        self.circuit.close()
        if self.disposable:
            await settled(self.engine.dispose())


@dataclass(frozen=True, slots=True)
class CallersConnection:
    """Runs each step on the connection of a caller's transaction, which the caller commits or rolls back."""

    connection: AnyConnection

    @property
    def dialect(self) -> Dialect:
        """The dialect of SQL to use."""
        return Dialect(self.connection.dialect.name)

    @property
    def times_replaced(self) -> int:
        """Always 0: a transaction stays in the file in which it began."""
        return 0

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:  # noqa: ARG002
        """Do one step as a part of the transaction."""
        try:
            return await step(self.connection)
        except DBAPIError as error:
            raise if_settings_worked(self.connection.engine, translated(error, doing), doing) from error

    async def close(self) -> None:
        """Leave the connection to its owner."""
