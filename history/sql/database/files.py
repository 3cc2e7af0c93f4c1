"""Engines for a file of SQLite: only one user can read it, and it may be deleted or replaced while open.

A file that replaced another one is opened. No new file is made where one was deleted: somebody may be about
to copy a backup there. SQLite itself reports which file it has opened: a caller's engine may have been made
in another folder, or may connect in its own way.

Another process may lock the file. Each write waits for the lock, at most for ``?timeout=``. The writes of one
message and the renewals of its lease share one connection, so their waits would add up to minutes. After a
write has waited in vain, the next ones wait only a moment, until one succeeds.
"""

import errno
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, ref

from sqlalchemy import Connection, Engine, Pool, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry

from history.bridge import settled
from history.errors import ConfigurationError, DoubtlessError, HistoryUnavailableError
from history.sql.database.errors import is_locked
from history.sql.database.forks import pooled_of
from history.sql.database.paths import file_named, file_of, makes_file
from history.sql.statements.dialects import Dialect
from history.support.open_files import Identity, OpenFile
from history.support.private_files import create_private

#: The consequence, for the log.
DELETED = (
    "nothing is read or written until it is there again. To begin with an empty file, restart the processes. "
    "Stop them before you delete, move or restore it"
)
REPLACED = (
    "that one is used now, messages that it does not know are NEW again, and the parked and queued messages "
    "of the other file are gone. Stop all processes before you move or restore it"
)

#: Under this key a connection remembers which file it has opened; None for a database in memory.
_OPENED = "doubtless_file"

#: How long a write waits for the lock if the write before it has waited in vain, in milliseconds.
MOMENT = 100

#: Under this key a connection remembers how long its writes usually wait, in milliseconds.
_USUAL = "doubtless_usual_wait"

_files: "WeakKeyDictionary[Engine, _Followed]" = WeakKeyDictionary()


class _Followed:
    """The file of an engine, known since its first connection."""

    def __init__(self, engine: Engine) -> None:
        # Not the engine itself: it is the key under which this is found.
        self._engine = ref(engine)
        self._pool: ref[Pool] | None = None
        self._asked = file_of(engine.url)
        self.file: OpenFile | None = None
        self.written = False
        event.listen(engine, "do_connect", self._refuse)
        event.listen(engine, "connect", self._note)
        event.listen(engine, "checkout", self._compare)

    def _refuse(self, *_about: object) -> None:
        if self.file is not None and self._was_disposed_of():
            self.file.closed()  # nothing was open: a deleted file may return
        if self.file is not None and self.file.is_gone:
            raise _gone(self.file)

    def _note(self, connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        engine, name = self._engine(), _name_of(connection)
        self._pool = None if engine is None else ref(engine.pool)
        if self.file is None and (path := self._path_to(name)) is not None:
            self.file = OpenFile(path, DELETED, REPLACED)
        if self.file is not None:
            self.file.know_log(anew=True)
        record.info[_OPENED] = self._state() if name else None

    def _compare(self, connection: DBAPIConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
        if _OPENED not in record.info:
            self._take_in(connection, record)
        opened = record.info[_OPENED]
        if opened is None:
            return
        state = self._state()
        if self.file is not None and state is None:
            raise _gone(self.file)
        if opened != state:
            raise DisconnectionError  # the pool closes this one, and connects again
        if self.file is not None:
            self.file.know_log()

    def _was_disposed_of(self) -> bool:
        """Whether the engine has another pool than before; its event for this would slow each statement."""
        engine = self._engine()
        return engine is not None and self._pool is not None and self._pool() is not engine.pool

    @staticmethod
    def _take_in(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        """Accept a connection from before the listeners: the file that it has opened is unknown."""
        name = _name_of(connection)
        if name and Path(name).exists():
            raise DisconnectionError
        record.info[_OPENED] = None  # memory holds its whole database

    def is_lost(self, opened: object) -> bool:
        """Whether a connection has opened another file than the present one."""
        return opened is not None and opened != self._state()

    def _state(self) -> tuple[Identity, int] | None:
        identity = None if self.file is None else self.file.look()
        return None if self.file is None or identity is None else (identity, self.file.times)

    def _path_to(self, name: str) -> Path | None:
        """Return the path to follow: the requested one, because links may change, if it leads to ``name``."""
        for path in (self._asked, name):
            if path and name and _is_same(path, name):
                return Path(path)
        return None


def follow_file(engine: Engine | AsyncEngine) -> None:
    """Make an engine refuse connections to a file that is gone; one call is enough."""
    pooled = pooled_of(engine)
    if pooled.dialect.name == Dialect.SQLITE and pooled not in _files:
        _files[pooled] = _Followed(pooled)


def make_private(_dialect: object, _record: object, arguments: Sequence[Any], _named: object) -> None:
    """Make the SQLite file, if it does not exist, so that only this user can read it."""
    name = str(arguments[0]) if arguments else ""
    file = file_named(name)
    if file is None or not makes_file(name):
        return
    try:
        create_private(Path(file))
    except OSError as error:
        if error.errno == errno.ELOOP:
            problem = f"{file}: {error.strerror}"
            raise ConfigurationError("history", problem, "name the file itself") from error
        # SQLite will report the problem.


def times_replaced(engine: Engine | AsyncEngine, *, look: bool = False) -> int:
    """Return how often another file replaced an engine's file; 0 for a server.

    The engine checks this whenever it gives out a connection; ``look`` checks it now.
    """
    followed = _files.get(pooled_of(engine))
    if followed is None or followed.file is None:
        return 0
    if look:
        followed.file.look()
    return followed.file.times


def note_written(engine: Engine | AsyncEngine) -> None:
    """Note that a transaction on an engine's file was committed: its settings are right."""
    if (followed := _files.get(pooled_of(engine))) is not None:
        followed.written = True


def if_settings_worked(engine: Engine | AsyncEngine, error: DoubtlessError, doing: str) -> DoubtlessError:
    """Return an error of a SQLite file as an unavailable history if its settings have worked before.

    Somebody has damaged the file or changed its permissions while this process runs. The process goes on, and
    its messages wait until the file is repaired.
    """
    followed = _files.get(pooled_of(engine))
    if followed is None or not followed.written or not isinstance(error, ConfigurationError):
        return error
    problem = error.problem.replace(f" (while {doing})", "")
    return HistoryUnavailableError(f"{doing}: {problem}; restore the file")


def refuse_lost(connection: Connection | AsyncConnection, doing: str) -> None:
    """Refuse to commit to a file that was deleted or replaced after its connection left the pool.

    Raises:
        HistoryUnavailableError: it was; nothing is committed.
    """
    followed = None if connection.invalidated else _files.get(pooled_of(connection.engine))
    if followed is not None and followed.is_lost(connection.info.get(_OPENED)):
        raise HistoryUnavailableError(doing)


async def shorten_wait(connection: Any, error: BaseException) -> None:
    """After a write that waited in vain for the lock, let the next one wait only a moment."""
    if is_locked(error) and _USUAL not in connection.info:
        result = await settled(connection.exec_driver_sql("PRAGMA busy_timeout"))
        connection.info[_USUAL] = int(result.scalar())
        await _wait_for(connection, MOMENT)


async def restore_wait(connection: Any) -> None:
    """After a write that succeeded, let the next one wait as usual."""
    if _USUAL in connection.info:
        await _wait_for(connection, connection.info.pop(_USUAL))


async def _wait_for(connection: Any, milliseconds: int) -> None:
    await settled(connection.exec_driver_sql(f"PRAGMA busy_timeout = {milliseconds}"))


def _name_of(connection: DBAPIConnection) -> str:
    """Return the file that a connection has open, as SQLite names it; empty for a database in memory."""
    with closing(connection.cursor()) as cursor:
        cursor.execute("PRAGMA database_list")
        names = {str(row[1]): str(row[2] or "") for row in cursor.fetchall()}
    return names.get("main", "")


def _is_same(path: str, name: str) -> bool:
    try:
        return Path(path).samefile(name)
    except OSError:  # no such file: a database in memory may have a name as well
        return False


def _gone(file: OpenFile) -> sqlite3.OperationalError:
    """Return an error that SQLAlchemy translates like every driver error: the database is unavailable."""
    return sqlite3.OperationalError(f"{file.path} was deleted or replaced while it was open")
