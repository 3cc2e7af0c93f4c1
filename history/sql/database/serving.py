"""A connection while a service uses it: what the service may not do, and what it may leave behind.

A service may not end the transaction: that would separate its effects from their history entry. If it changes
the whole session, such as its role, later services would get the change: such a connection leaves the pool.
"""

import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, AnyEngine, driver_of

#: A statement that would end the transaction, or touch the savepoint, under a running service.
_ENDS_TRANSACTION = re.compile(
    r"(?is)(?:^|;)\s*(?:commit\b|end\b|abort\b|prepare\s+transaction\b|begin\b|start\s+transaction\b"
    r"|rollback\b(?!\s+(?:(?:work|transaction)\s+)?to\b)"
    r"|(?:release|rollback\s+(?:(?:work|transaction)\s+)?to)\s+(?:savepoint\s+)?doubtless_)"
)

#: A statement that changes the session beyond the transaction, but nothing else.
_CHANGES_SESSION = re.compile(
    r"(?is)(?:^|;)\s*(?:set\s+(?!local\b|transaction\b|constraints\b)|reset\b|discard\b|load\b|listen\b"
    r"|deallocate\b|prepare\b|attach\b|detach\b|pragma\b[^;]*[=(]|create\s+(?:\w+\s+)?temp)"
    r"|\bset_config\s*\(|\bpg_(?:try_)?advisory_lock|\bwith\s+hold\b"
)

#: Texts that look like such a statement, but are not: quoted text and comments.
_QUOTED = re.compile(r"(?s)'(?:[^']|'')*'|\"[^\"]*\"|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/")

#: The first letters of such statements.
_SUSPECT = frozenset("aAbBcCdDeElLpPrRsSwW;-/")

#: The attributes of psycopg's and sqlite3's connections that make rows, and others that change the next
#: user's statements.
_FACTORIES = ("row_factory", "cursor_factory", "text_factory")
_WAYS = (*_FACTORIES, "prepare_threshold", "isolation_level")

#: Under this key the info of a connection has the mark of its transaction.
_MARK = "doubtless_service"


@dataclass(slots=True)
class ServiceMark:
    """The state of a connection's service.

    If a service detaches a connection from its pool, a copy of its info keeps this mark.
    """

    serves: bool = False
    #: The service changed the session, so no other service may use it.
    changed: bool = False
    _ways: tuple[object, ...] | None = None

    async def put_on(self, connection: AnyConnection) -> None:
        """Check the connection's statements while a service runs, and remember the driver's settings."""
        if self._ways is None:
            self._ways = _ways_of(await driver_of(connection))
            connection.info[_MARK] = self
        self.serves = True

    async def compare(self, connection: AnyConnection) -> None:
        """Note what the service changed in the driver, and restore the rows that the history reads."""
        if self._ways is None or connection.closed or connection.invalidated:
            return
        driver = await driver_of(connection)
        if driver is None or _ways_of(driver) == self._ways:
            return
        self.changed = True
        for name, way in zip(_FACTORIES, self._ways, strict=False):
            if hasattr(driver, name):
                setattr(driver, name, way)


def guard(engine: AnyEngine) -> None:
    """On the connections of an engine, refuse every statement of a service that ends its transaction."""
    target = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    for name, check in (("commit", _refuse), ("rollback", _refuse), ("before_cursor_execute", _check_text)):
        if not event.contains(target, name, check):
            event.listen(target, name, check)


def _ways_of(driver: object) -> tuple[object, ...]:
    return tuple(getattr(driver, name, None) for name in _WAYS)


def _check_text(connection: Connection, _cursor: Any, text: str, *_: Any) -> None:
    if not (text[:1] in _SUSPECT or text[:1].isspace() or ";" in text):
        return
    if (mark := _serving(connection)) is None:
        return
    if _has(_ENDS_TRANSACTION, text):
        _refuse(connection)
    mark.changed = mark.changed or _has(_CHANGES_SESSION, text)


def _has(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern matches a statement outside of quoted text and comments."""
    may_begin_later = "/*" in text or "--" in text
    return bool((may_begin_later or pattern.search(text)) and pattern.search(_QUOTED.sub(" ", text)))


def _refuse(connection: Connection) -> None:
    if _serving(connection) is not None:
        raise ConfigurationError(
            "the service's connection",
            "commit and rollback would separate the effects from the history entry",
            "leave both to the trigger; use connection.begin_nested() for a part that may fail",
        )


def _serving(connection: Connection) -> ServiceMark | None:
    # A connection that was invalidated has no transaction to end, and its info would raise.
    mark: ServiceMark | None = None if connection.invalidated else connection.info.get(_MARK)
    return mark if mark is not None and mark.serves else None
