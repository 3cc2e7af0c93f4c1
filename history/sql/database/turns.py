"""Connections of a full pool, in the order in which callers ask for them.

SQLAlchemy's pools give a returned connection to the first caller that asks. Usually that is the thread or
task that has just given it back. SQLite has one connection: one busy thread would keep all others away. So a
caller that meets a full pool takes its turn. Only it waits for the pool; all others wait behind it.

The handler of a signal may raise anywhere in the main thread, as the soft time limit of Celery does. Inside
the pool, such an exception can take a connection out of it forever. So we note which connections are out. If
the pool counts more than that, the waiting callers get a new pool.
"""

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, get_ident
from time import monotonic
from weakref import WeakKeyDictionary, ref

from sqlalchemy import Connection, Engine, Pool, QueuePool
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from history.bridge import settled

_log = logging.getLogger(__name__)

#: How long a caller waits for a connection before it checks whether one is lost, in seconds.
LOOK_SECONDS = 1.0

#: After how long a caller gives its turn to the next one, in seconds.
TURN_SECONDS = 5.0

#: How many connections are noted before the ones that came back are forgotten.
MOST_OUT = 256

_locks: "WeakKeyDictionary[Pool, asyncio.Lock]" = WeakKeyDictionary()

#: A forked child has its own pools, and so lines without any thread of its parent.
_lines: "WeakKeyDictionary[Pool, ConnectionQueue]" = WeakKeyDictionary()


async def connect_in_turn(
    engine: Engine | AsyncEngine, *, at_once: bool = False, replaces: Callable[[], bool] = bool
) -> Connection | AsyncConnection:
    """Return a connection of the engine's pool; if all are in use, wait behind earlier callers.

    ``at_once`` is for callers who may hold what the others wait for. ``replaces`` returns whether only this
    function takes connections from the pool, so that it may replace the pool.

    Raises:
        TimeoutError: (SQLAlchemy's) no connection came back during this caller's turn.
        DBAPIError: the connection cannot be made.
    """
    pool = engine.pool
    if not isinstance(pool, QueuePool):
        return await settled(engine.connect())
    if isinstance(engine, Engine):
        return _line_of(pool).connect(engine, pool, at_once=at_once, replaces=replaces)
    lock = _locks.get(pool) or _locks.setdefault(pool, asyncio.Lock())
    if at_once or (not lock.locked() and not _is_full(pool)):
        return await engine.connect()
    async with lock:
        return await engine.connect()


def is_detached(connection: Connection | AsyncConnection) -> bool:
    """Whether a connection has left its pool for good."""
    sync = connection.sync_connection if isinstance(connection, AsyncConnection) else connection
    return sync is not None and not sync.closed and not sync.invalidated and sync.connection.is_detached


def _line_of(pool: Pool) -> "ConnectionQueue":
    return _lines.get(pool) or _lines.setdefault(pool, ConnectionQueue())


def _is_full(pool: QueuePool) -> bool:
    # No public attribute has it; -1 means no limit.
    beyond = pool._max_overflow  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return beyond >= 0 and pool.checkedout() >= pool.size() + beyond


class _Call:
    """Exists as long as a call goes on, however that ends."""

    __slots__ = ("__weakref__",)


class _Place(_Call):
    """A call that waits for its turn."""

    __slots__ = ("_called",)

    def __init__(self) -> None:
        self._called = Lock()
        self._called.acquire()

    def wait(self) -> None:
        """Wait until called, or until it is time to check the pool."""
        self._called.acquire(timeout=LOOK_SECONDS)

    def call(self) -> None:
        """Wake the waiting caller."""
        if self._called.locked():
            self._called.release()


class ConnectionQueue:
    """The threads that wait for a connection of one pool, and the connections that are out of it."""

    def __init__(self) -> None:
        self._changing = Lock()
        self._places: deque[ref[_Place]] = deque()
        # Not sets of weak references, because an exception can also cut off their removals.
        self._asking: dict[int, ref[_Call]] = {}
        self._out: dict[int, ref[Connection]] = {}

    def connect(
        self, engine: Engine, pool: QueuePool, *, at_once: bool, replaces: Callable[[], bool]
    ) -> Connection:
        """Return a connection; see :func:`connect_in_turn`."""
        if at_once or (not self._places and not _is_full(pool)):
            return self.ask(engine)
        waiter = _Place()
        try:
            self._stand(waiter)
            return self._ask_and_look(engine, pool, replaces=replaces)
        finally:
            self._leave(waiter)

    def _ask_and_look(self, engine: Engine, pool: QueuePool, *, replaces: Callable[[], bool]) -> Connection:
        over = monotonic() + TURN_SECONDS
        while engine.pool is pool and monotonic() < over:
            with suppress(PoolTimeoutError):
                return self.ask(engine)
            if replaces() and (self.has_lost(pool) or (gc.collect() and self.has_lost(pool))):
                _log.warning("a connection is lost because a signal handler raised: beginning a new pool")
                engine.dispose(close=False)
        return _line_of(engine.pool).ask(engine)

    def ask(self, engine: Engine) -> Connection:
        """Return a connection, and note that it is out."""
        asks = _Call()
        self._asking[get_ident()] = ref(asks)
        try:
            connection = engine.connect()
            self._out[id(connection)] = ref(connection)
        finally:
            self._asking.pop(get_ident(), None)
        if len(self._out) > MOST_OUT:
            self._out = {key: out for key, out in list(self._out.items()) if out() is not None}
        return connection

    def has_lost(self, pool: QueuePool) -> bool:
        """Whether the pool counts a connection as in use that nobody has, or is about to get."""
        asking = [caller for caller in list(self._asking.values()) if caller() is not None]
        held = [connection for out in list(self._out.values()) if (connection := out()) is not None]
        held = [connection for connection in held if not connection.closed and not is_detached(connection)]
        return pool.checkedout() > len(asking) + len(held)

    def _stand(self, waiter: _Place) -> None:
        """Wait until all earlier callers have left."""
        with self._changing:
            self._places.append(ref(waiter))
        while not self._is_first(waiter):
            waiter.wait()

    def _is_first(self, waiter: _Place) -> bool:
        with self._changing:
            while (first := self._places[0]()) is None:
                self._places.popleft()
        return first is waiter

    def _leave(self, waiter: _Place) -> None:
        with self._changing:
            was_first = bool(self._places) and self._places[0]() is waiter
            self._places = deque(other for other in self._places if other() not in {None, waiter})
            after = self._places[0]() if was_first and self._places else None
        if after is not None:
            after.call()
