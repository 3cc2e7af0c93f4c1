"""Connections of the SQL history: from a URL to an engine, and from a driver's exception to one of ours.

Everything here serves a blocking and an asyncio engine alike, see :mod:`history.bridge`. Engines run in
autocommit: on PostgreSQL every step is one statement, on SQLite a step that writes opens its transaction
itself, because it must be ``BEGIN IMMEDIATE``: SQLite refuses to turn a reader into a writer that waits.
"""

import importlib.util
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
from history.sql.database.files import follow_file, make_private, times_replaced
from history.sql.database.forks import pooled_of, survive_forks
from history.sql.database.nesting import DO_NOT_WAIT_LONG, is_inside
from history.sql.database.paths import file_of
from history.sql.database.postgresql import open_postgresql, with_hosts
from history.sql.database.silence import is_no_reply
from history.sql.database.turns import LOOK_SECONDS, connect_in_turn, is_detached
from history.sql.statements.dialects import Dialect, Sql, Statement, statement
from history.support.urls import guarded, refuse_unknown

_log = logging.getLogger(__name__)

T = TypeVar("T")

AnyConnection = Connection | AsyncConnection
AnyEngine = Engine | AsyncEngine

#: A row of any shape.
AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"

#: What is done with a connection.
Step = Callable[[AnyConnection], Awaitable[T]]

#: How long a step waits for another writer of the same SQLite file; ``?timeout=`` in the URL changes it.
BUSY_TIMEOUT_SECONDS = 10.0

#: How many pages of 4 KiB SQLite's write-ahead log gathers before they are written to the file.
CHECKPOINT_PAGES = 8000

#: How much memory SQLite's cache may take, in KiB.
CACHE_KIB = 65_536

#: The first SQLite that has RETURNING, UPDATE FROM and, always, JSON.
OLDEST_SQLITE = (3, 38, 0)

#: The drivers that the statements were written for, by dialect.
DRIVERS = {("sqlite", "pysqlite"), ("sqlite", "aiosqlite"), ("postgresql", "psycopg")}

#: How an atomic step begins and ends.
BEGIN = statement(sqlite="BEGIN IMMEDIATE", postgresql="BEGIN")
COMMIT = statement("COMMIT")
ROLLBACK = statement("ROLLBACK")

#: How often a step is tried that others' transactions get in the way of.
CONFLICT_ATTEMPTS = 20


#: What a SQLite URL may say: the options of Python's driver, and those of SQLite's own file names, which it
#: reads after ``uri=true`` alone.
SQLITE_OPTIONS = ("timeout", "detect_types", "cached_statements", "uri")
SQLITE_FILE_OPTIONS = ("mode", "cache", "psow", "nolock", "immutable", "vfs", "modeof")


def open_engine(url: str | URL, *, asyncio: bool, options: Sequence[str] = ("circuit",)) -> AnyEngine:
    """Make an engine for the history's own use; nothing is connected yet.

    ``options`` are those of the URL that its opener has taken out, for the error about one there is not.

    Raises:
        ConfigurationError: it is no URL of SQLite or PostgreSQL, or (MissingExtraError) a driver is missing.
    """
    if isinstance(url, str):
        with guarded(url, "history"):
            return _open_engine(url, asyncio=asyncio, options=options)
    return _open_engine(url, asyncio=asyncio, options=options)


def _open_engine(url: str | URL, *, asyncio: bool, options: Sequence[str]) -> AnyEngine:
    try:
        parsed = parsed_url(url)
    except (ArgumentError, ValueError):  # whose texts hold the URL
        raise ConfigurationError(
            "history", "its URL is not valid", "use sqlite:///file.db or postgresql://..."
        ) from None
    if parsed.get_backend_name() == Dialect.SQLITE and (parsed.host or parsed.username):
        raise ConfigurationError(
            "history", "a SQLite URL names no host", "use sqlite:///file.db, with three slashes"
        )
    if parsed.get_backend_name() == Dialect.SQLITE:
        files = SQLITE_FILE_OPTIONS if "uri" in parsed.query else ()
        refuse_unknown(parsed.query, (*options, *SQLITE_OPTIONS, *files), "history")
        engine = _open_sqlite(parsed, asyncio=asyncio)
    elif parsed.drivername in {"postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg_async"}:
        engine = open_postgresql(parsed, asyncio=asyncio)
    else:
        raise ConfigurationError(
            "history", f"cannot use {parsed.drivername}", "use sqlite:///file.db or postgresql://..."
        )
    _make_safe(engine)
    if engine.dialect.name == Dialect.SQLITE:
        # Last: what is known to be deleted is not made again.
        event.listen(pooled_of(engine), "do_connect", make_private)
    return engine


def parsed_url(url: str | URL) -> URL:
    """Read a URL, also one with several hosts that have ports: ``postgresql://one:5432,two:5432/database``.

    Raises:
        ArgumentError, ValueError: it is none.
    """
    return make_url(with_hosts(url) if isinstance(url, str) else url)


def split_circuit(url: str | URL) -> tuple[str | URL, bool]:
    """Return a URL without ``circuit=on|off``, which is no driver's, and whether it is on.

    Raises:
        ConfigurationError: it is neither.
    """
    rest, value = split_option(url, "circuit")
    return rest, is_on(value)


def split_option(url: str | URL, name: str) -> tuple[str | URL, str | None]:
    """Return a URL without one of its options, which is no driver's, and what that says, if only nothing."""
    try:
        parsed = parsed_url(url)
    except (ArgumentError, ValueError):
        return url, None  # open_engine says so
    value = parsed.query.get(name)
    if value is None and isinstance(url, str) and (name, "") in _pairs(url):
        value = ""  # SQLAlchemy passes over it
    return parsed.difference_update_query([name]), None if value is None else str(value)


def _pairs(url: str) -> Sequence[tuple[str, str]]:
    return parse_qsl(url.partition("?")[2], keep_blank_values=True)


def _note_full(engine: AnyEngine, doing: str) -> None:
    more = "give the URL more ?connections="
    if engine.dialect.name == Dialect.SQLITE:
        more = "SQLite has one, use PostgreSQL"
    _log.warning(
        "%s waits for a connection, all of the pool are in use (%s): %s, or lower the trigger's concurrency",
        doing,
        engine.pool.status(),
        more,
    )


def in_memory(url: URL) -> bool:
    """Whether a SQLite URL names no file."""
    return file_of(url) is None


def _open_sqlite(url: URL, *, asyncio: bool) -> AnyEngine:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigurationError(
            "history",
            f"SQLite {sqlite3.sqlite_version} is too old",
            f"use a Python with SQLite {'.'.join(map(str, OLDEST_SQLITE))} or later, or PostgreSQL",
        )
    if "timeout" not in url.query:
        url = url.update_query_dict({"timeout": str(BUSY_TIMEOUT_SECONDS)})
    # One connection: SQLite has one writer, and threads that queue here wait less than those that poll its
    # lock. In memory, it also is the only one that sees the data.
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "pool_size": 1, "max_overflow": 0}
    options["hide_parameters"] = True  # in the texts of errors, which go into logs
    if asyncio:
        if importlib.util.find_spec("aiosqlite") is None:
            raise MissingExtraError("sqlite:// for asyncio", extra="asyncio", package="aiosqlite")
        url = url.set(drivername="sqlite+aiosqlite")
        engine = create_async_engine(url, poolclass=AsyncAdaptedQueuePool, **options)
        event.listen(engine.sync_engine, "connect", _configure_sqlite)
        return engine
    options |= {"connect_args": {"check_same_thread": False}, "pool_timeout": LOOK_SECONDS}
    blocking = create_engine(url.set(drivername="sqlite"), poolclass=QueuePool, **options)
    event.listen(blocking, "connect", _configure_sqlite)
    return blocking


def _configure_sqlite(connection: DBAPIConnection, _record: object) -> None:
    # NORMAL would survive kill -9 as well, but a power cut could undo the last commits, and a message whose
    # completion is undone is NEW when it is delivered again.
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA synchronous = FULL")
        # Digests are all over the index: the more claims share a checkpoint, the fewer pages it writes.
        cursor.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        cursor.execute(f"PRAGMA cache_size = {-CACHE_KIB}")
        cursor.close()
    except BaseException:
        # The pool forgets it, and the thread that aiosqlite has for it would live on.
        connection.close()
        raise


def _make_safe(engine: AnyEngine) -> None:
    """Have an engine survive forks, files that are replaced, and tasks that are cancelled."""
    survive_forks(engine)
    follow_file(engine)
    if isinstance(engine, AsyncEngine) and engine.dialect.driver == "aiosqlite":
        pool = engine.sync_engine.pool
        if not event.contains(pool, "invalidate", _roll_back_first):
            event.listen(pool, "invalidate", _roll_back_first)


def _roll_back_first(connection: DBAPIConnection, _record: object, _error: object) -> None:
    # Cut off in a statement that returns rows, it is closed only when the last cursor is gone, which may be
    # at the next garbage collection; until then its transaction would keep all others from writing.
    rolling = _rolled_back(connection.driver_connection)
    try:
        begin(rolling)
    except RuntimeError:  # it is collected as garbage, outside of its event loop
        rolling.close()


async def _rolled_back(driver: Any) -> None:
    with suppress(ValueError, sqlite3.Error):  # it is closed, or has nothing to roll back
        await driver.rollback()


def refuse_other_drivers(engine: AnyEngine) -> None:
    """Refuse an engine for another database or driver; one that is good survives what may happen from now on.

    Raises:
        ConfigurationError: it is one.
    """
    if isinstance(engine, str | URL):  # a user may give anything
        raise ConfigurationError(
            "history", "an engine of SQLAlchemy is wanted here, not a URL", "use open_history(URL)"
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
    given: Any = values
    if order is not None:
        rows = [values] if isinstance(values, Mapping) else values
        tuples = [tuple([row[name] for name in order]) for row in rows]
        given = tuples[0] if isinstance(values, Mapping) else tuples
    return await settled(connection.exec_driver_sql(text, given))


async def driver_of(connection: AnyConnection) -> Any:
    """Return the driver's own connection, of psycopg, sqlite3 or aiosqlite; None where it is gone."""
    if isinstance(connection, AsyncConnection):
        adapted: Any = (await connection.get_raw_connection()).dbapi_connection
        return None if adapted is None else adapted.driver_connection
    return connection.connection.dbapi_connection


async def give_back(connection: AnyConnection) -> None:
    """Give a connection back to its pool, or close one that a service has detached from it."""
    if is_detached(connection):
        await hang_up(connection)
    else:
        await settled(connection.close())


async def hang_up(connection: AnyConnection) -> None:
    """Close a connection that was taken from the pool for good, and that may be broken."""
    with suppress(DBAPIError, OSError):
        # One that is invalidated has been closed, and would be connected anew.
        if isinstance(connection, AsyncConnection) and not connection.invalidated:
            # The pool leaves a detached connection of asyncio open.
            await (await driver_of(connection)).close()
    with suppress(DBAPIError, OSError):
        await settled(connection.close())


async def _closing_for_certain(connection: Connection, doing: Awaitable[T]) -> T:
    """Do what gives a connection back when it is done; see to it where that is cut off.

    The handler of a signal may raise anywhere, also on the way to the end of a ``finally``.
    """
    try:
        return await doing
    except BaseException:
        if not connection.closed:
            with suppress(Exception):
                connection.close()
        raise


class Database(Protocol):
    """The way to the database: connections of our own, or the one of somebody's transaction."""

    @property
    def dialect(self) -> Dialect:
        """Whose SQL to speak."""
        ...

    @property
    def times_replaced(self) -> int:
        """How often the file was another one than before; what was made there has to be made again."""
        ...

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:
        """Do one step; ``atomic`` when it has several statements that stand or fall together.

        Raises:
            HistoryUnavailableError: the server did not answer, or cannot do it at present.
            ConfigurationError: it never will, as it is set.
        """
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


@dataclass(slots=True)
class _Wanted:
    """Whether anybody waits for a step still."""

    still: bool = True

    def check(self) -> None:
        """End the step where nobody does."""
        if not self.still:
            raise CancelledError


#: Under this key a connection remembers that it was greeted.
_GREETED = "doubtless_greeted"

#: The circuit of a database that has none.
NO_CIRCUIT = Circuit("nothing", bool, enabled=False)


@dataclass(frozen=True, slots=True)
class Pooled:
    """Each step on a connection from the pool, committed when it is done."""

    engine: AnyEngine
    disposable: bool
    circuit: Circuit = NO_CIRCUIT
    #: What is done once with each connection before anything else; it returns whether it is done.
    greet: Step[bool] | None = None

    @property
    def dialect(self) -> Dialect:
        """Whose SQL to speak."""
        return Dialect(self.engine.dialect.name)

    @property
    def times_replaced(self) -> int:
        """How often a file of SQLite was another one than before; see :class:`Database`."""
        return times_replaced(self.engine)

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:
        """Do one step; again when it met a connection that had died in the pool, or a conflict."""
        # Every write may be sent twice, so it does not matter whether the first one arrived.
        died, attempts = False, 0
        while True:
            try:
                return await self._once(doing, step, atomic=atomic)
            except DBAPIError as error:
                attempts += 1
                conflicts = is_conflict(error) and attempts < CONFLICT_ATTEMPTS
                first_death = error.connection_invalidated and not died and not is_no_reply(error.orig)
                if not conflicts and not first_death:
                    raise translated(error, doing) from error
                died = died or error.connection_invalidated

    async def connect(self, doing: str, *, inside: bool = False) -> AnyConnection:
        """Return a connection from the pool; fail fast from now on if that met no server.

        Who is ``inside`` a transaction of this pool does not wait for others to give theirs back.

        Raises:
            HistoryUnavailableError: it met none, or (CircuitOpenError) did not before.
            ConfigurationError: it cannot be made as it is set.
        """
        connecting = self._connect(doing, inside=inside)
        if isinstance(self.engine, Engine):
            return await connecting
        # Cut off while it connects or is greeted, the driver would leave a connection that nobody closes.
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
                # All are in use, which says nothing of the server: one comes back when a service ends.
                _note_full(self.engine, doing)
            except DBAPIError as error:
                if is_conflict(error) and conflicts < CONFLICT_ATTEMPTS:
                    conflicts += 1  # of two that greet at once, where all is serializable
                    continue
                if is_unanswered(error):
                    self.circuit.open(error.orig or error)
                raise translated(error, doing) from error

    def _may_replace(self) -> bool:
        """Whether the pool is ours alone, and its data are not gone with it."""
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
            # Cut off, aiosqlite's thread goes on with it all the same. PostgreSQL's driver cancels it.
            return await to_its_end(doing_it)
        except CancelledError:
            wanted.still = False
            raise

    async def _step_on(
        self, connection: AnyConnection, step: Step[T], wanted: _Wanted, *, atomic: bool, inside: bool
    ) -> T:
        """Do a step and give its connection back; what nobody wants any more is rolled back."""
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
            return answer
        finally:
            # The pool rolls back what an error left open.
            await settled(connection.close())

    async def close(self) -> None:
        """End the circuit's probing, and close the pool, if it is the history's own."""
        self.circuit.close()
        if self.disposable:
            await settled(self.engine.dispose())


@dataclass(frozen=True, slots=True)
class Joined:
    """Each step on the connection of somebody else's transaction, which commits it or does not."""

    connection: AnyConnection

    @property
    def dialect(self) -> Dialect:
        """Whose SQL to speak."""
        return Dialect(self.connection.dialect.name)

    @property
    def times_replaced(self) -> int:
        """Always none: a transaction stays where it has begun."""
        return 0

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:  # noqa: ARG002
        """Do one step as a part of the transaction."""
        try:
            return await step(self.connection)
        except DBAPIError as error:
            raise translated(error, doing) from error

    async def close(self) -> None:
        """Leave the connection to its owner."""
