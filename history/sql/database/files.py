"""Engines to a file of SQLite that is deleted or replaced while they run: they open what is there now."""

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

#: Under this key a connection remembers which file it has opened.
_OPENED = "doubtless_file"

#: What is lost with a file, for the log.
LOST = "messages that it does not know are NEW again, and what was stored in the other one is gone"

_files: "WeakKeyDictionary[Engine, OpenFile]" = WeakKeyDictionary()


def follow_file(engine: Engine | AsyncEngine) -> None:
    """Have an engine give out no connection to a file that is gone; once is enough."""
    pooled = _pooled(engine)
    path = file_of(pooled) if pooled.dialect.name == Dialect.SQLITE else None
    if path is None or pooled in _files:
        return
    _files[pooled] = file = OpenFile(Path(path), LOST)

    def note(_connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        record.info[_OPENED] = file.look()

    def compare(_connection: DBAPIConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
        if record.info.get(_OPENED) != file.look():
            raise DisconnectionError  # the pool closes this one, and connects again

    event.listen(pooled, "connect", note)
    event.listen(pooled, "checkout", compare)


def times_replaced(engine: Engine | AsyncEngine) -> int:
    """Return how often an engine's file was another one than before; looks at it. 0 for a server."""
    file = _files.get(_pooled(engine))
    if file is None:
        return 0
    file.look()
    return file.times


def _pooled(engine: Engine | AsyncEngine) -> Engine:
    pooled = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    return getattr(pooled, "_proxied", pooled)  # options are a view of an engine, with the same pool
