"""Engines of SQLAlchemy across a fork: the child connects again, and the parent goes on.

PostgreSQL: the child disables its copies of the parent's sockets. SQLite: its locks belong to a process, and
its library counts them in memory that a fork copies. A child with the parent's connections would believe that
it holds locks, and could lose commits. So they are closed before the fork, after a wait for threads that are
using one. If a child inherits a connection anyway, it may not use that file.
"""

import threading
import time
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import Engine, Pool, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry

from history.errors import ConfigurationError
from history.sql.database.paths import file_named, file_of
from history.sql.statements.dialects import Dialect
from history.support.forks import at_fork, keep, unplug
from history.support.loops import has_loop

#: How long a fork waits for threads that are using SQLite's connection, in seconds.
PATIENCE = 2.0

#: How often it checks whether they have finished, in seconds.
LOOK = 0.001

_guards: "WeakKeyDictionary[Engine, object]" = WeakKeyDictionary()

#: The files of SQLite that this process may not use, because it inherited a connection of its parent.
_carried: set[str] = set()


def pooled_of(engine: Engine | AsyncEngine) -> Engine:
    """Return the engine that has the pool: an engine for asyncio, or with options, is a view of it."""
    pooled = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    return getattr(pooled, "_proxied", pooled)


def survive_forks(engine: Engine | AsyncEngine) -> None:
    """Make an engine, and all engines derived from it, work in a forked child; one call is enough."""
    pooled = pooled_of(engine)
    if pooled in _guards:
        return
    if pooled.dialect.name == Dialect.POSTGRESQL:
        _guards[pooled] = _Sockets(pooled)
    elif pooled.dialect.name == Dialect.SQLITE and file_of(pooled.url) is not None:
        _guards[pooled] = _File(pooled)


class _Sockets:
    """The connections of an engine to PostgreSQL, in its pool and outside."""

    def __init__(self, engine: Engine) -> None:
        # Not the engine itself: it is the key under which this is found.
        self._drivers: WeakSet[Any] = WeakSet()
        event.listen(engine, "connect", self._note)
        at_fork(engine, self._in_child)

    def _note(self, _connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        self._drivers.add(record.driver_connection)

    def _in_child(self, engine: Engine) -> None:
        for driver in list(self._drivers):
            keep(driver)
            if not driver.closed:
                unplug(driver.pgconn.socket)
        self._drivers = WeakSet()
        keep(engine.pool)
        engine.dispose(close=False)


class _File:
    """The connections of an engine to a file of SQLite."""

    def __init__(self, engine: Engine) -> None:
        self._drivers: WeakSet[Any] = WeakSet()
        # Held during a fork, so that nobody opens the file then.
        self._opening = threading.RLock()
        self._forking = False
        self._is_carried = False
        event.listen(engine, "do_connect", self._refuse)
        if engine.dialect.is_async:
            event.listen(engine, "connect", self._note)
        at_fork(engine, self._in_child, before=self._before, in_parent=self._in_parent)

    def _refuse(self, _dialect: object, _record: object, arguments: Any, _named: object) -> None:
        with self._opening:
            pass
        if arguments and (file := file_named(str(arguments[0]))) in _carried:
            raise ConfigurationError(
                "history",
                f"this process was forked while its parent had a transaction open in {file}",
                "fork while nothing is under way, or start processes with multiprocessing's 'spawn'",
            )

    def _note(self, _connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        self._drivers.add(record.driver_connection)

    def _before(self, engine: Engine) -> None:
        self._forking = self._opening.acquire(timeout=PATIENCE)
        pool = engine.pool
        engine.dispose(close=False)  # from here on all others wait for _opening
        self._is_carried = not self._emptied(pool)
        if not engine.dialect.is_async:
            pool.dispose()
        elif not self._is_carried:
            self._stop_threads()

    def _emptied(self, pool: Pool) -> bool:
        """Wait until nobody uses a pool's connections; not on an event loop, which would wait for itself."""
        in_use = getattr(pool, "checkedout", None)
        if in_use is None:
            return False
        deadline = time.monotonic() + (0 if has_loop() else PATIENCE)
        while in_use() > 0 and time.monotonic() < deadline:
            time.sleep(LOOK)
        return bool(in_use() <= 0)

    def _stop_threads(self) -> None:
        for driver in list(self._drivers):
            if getattr(driver, "_connection", None) is not None:
                driver.stop()
                driver._thread.join(PATIENCE)  # noqa: SLF001  (without a loop, aiosqlite offers nothing else)

    def _in_parent(self, _engine: Engine) -> None:
        if self._forking:
            self._opening.release()

    def _in_child(self, engine: Engine) -> None:
        self._opening = threading.RLock()
        if self._is_carried and (file := file_of(engine.url)) is not None:
            _carried.add(file)
        self._drivers = WeakSet()
        engine.dispose(close=False)
