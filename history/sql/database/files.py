"""Engines to a file of SQLite that is deleted or replaced while they run.

One that is replaced is opened. None is made where there was one: a backup may be about to be copied there.
"""

import sqlite3
from pathlib import Path
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry

from history.sql.database.forks import file_of
from history.sql.statements.dialects import Dialect
from history.support.open_files import OpenFile

#: What it means, for the log.
DELETED = (
    "nothing is read or written until it is there again; to begin with an empty one, start the processes "
    "anew. Stop them before you delete, move or restore it"
)
REPLACED = (
    "that one is used now, messages that it does not know are NEW again, and what was parked or queued in "
    "the other one is gone. Stop all processes before you move or restore it"
)

#: Under this key a connection remembers which file it has opened.
_OPENED = "doubtless_file"

_files: "WeakKeyDictionary[Engine, OpenFile]" = WeakKeyDictionary()


def follow_file(engine: Engine | AsyncEngine) -> None:
    """Have an engine give out no connection to a file that is gone; once is enough."""
    pooled = _pooled(engine)
    path = file_of(pooled) if pooled.dialect.name == Dialect.SQLITE else None
    if path is None or pooled in _files:
        return
    _files[pooled] = file = OpenFile(Path(path), DELETED, REPLACED)

    def refuse(*_about: object) -> None:
        if file.is_gone:
            raise _gone(file)

    def note(_connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        record.info[_OPENED] = file.look(), file.times

    def compare(_connection: DBAPIConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
        found = file.look()
        if found is None:
            raise _gone(file)
        if record.info.get(_OPENED) != (found, file.times):
            raise DisconnectionError  # the pool closes this one, and connects again

    def note_end(_engine: Engine) -> None:
        file.closed()  # nothing is open: who deletes it now may have another one made

    event.listen(pooled, "engine_disposed", note_end)
    event.listen(pooled, "do_connect", refuse)
    event.listen(pooled, "connect", note)
    event.listen(pooled, "checkout", compare)


def times_replaced(engine: Engine | AsyncEngine, *, look: bool = False) -> int:
    """Return how often an engine's file was another one than before; 0 for a server.

    That is found whenever a connection is given out, or by a ``look`` now.
    """
    file = _files.get(_pooled(engine))
    if file is None:
        return 0
    if look:
        file.look()
    return file.times


def _gone(file: OpenFile) -> sqlite3.OperationalError:
    """Return what SQLAlchemy translates as it does all errors of the driver: the database is away."""
    return sqlite3.OperationalError(f"{file.path} was deleted while it was open")


def _pooled(engine: Engine | AsyncEngine) -> Engine:
    pooled = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    return getattr(pooled, "_proxied", pooled)  # options are a view of an engine, with the same pool
