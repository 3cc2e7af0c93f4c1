"""A captured change of a row, and how the other end applies it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar, Final, Literal, cast

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, TextClause, text
from sqlalchemy.orm import Session

from history.bridge import drive
from history.errors import ConfigurationError
from history.sql.database.engine import execute
from history.sql.links.history import applying
from history.sql.statements.dialects import Dialect, quoted_name
from history.sql.statements.watermark import MARK
from triggers.providers.sqlremote.capture.declared import Declared, column_types

#: The values of a row, by the names of columns.
Values = Mapping[str, Any]


class Change(BaseModel):
    """One change of one row, as a trigger has captured it.

    ``key`` has the primary key before the change. ``old`` and ``new`` have the values before and after it: of
    all columns for an INSERT or DELETE, of the changed columns for an UPDATE. An UPDATE that changes the key
    is followed by an INSERT of the whole row. A TRUNCATE has deleted all rows.

    Bytes are ``{"bytes": "00ff"}``, and infinity of SQLite is ``{"real": "inf"}``. PostgreSQL writes as text
    what is neither a whole number nor a boolean.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    table: str
    operation: Literal["INSERT", "UPDATE", "DELETE", "TRUNCATE"]
    key: Values = {}
    old: Values = {}
    new: Values = {}


def apply_changes(
    connection: Connection | Session,
    changes: Sequence[Change],
    *,
    tables: Sequence[str],
    to_sender: bool = False,
    subscription: str | None = None,
) -> None:
    """Apply captured changes to the tables here, whatever their rows hold: the last change wins.

    An INSERT or a new key whose row exists already overwrites it. An UPDATE or DELETE without a row does
    nothing.
    ``tables`` are those that the peer may change, as in the setting ``tables``. With ``to_sender``, triggers
    here capture these changes as this database's own: every peer gets them, the sender included. With
    ``subscription``, a TRUNCATE deletes only the rows of that subscriber, and a row that it has inserted for
    another one is deleted there.

        @trigger("link:orders", name="apply-orders", transacted=True)
        def apply(operations: list[Change], connection: Connection) -> None:
            apply_changes(connection, operations, tables=["orders"])

    Raises:
        ConfigurationError: a change is of another table or column, or of a row with a NULL in its key.
        SQLAlchemyError: the database refuses a change.
    """
    blocking = connection.connection() if isinstance(connection, Session) else connection
    link = applying(blocking)
    origin = link if to_sender else None
    if origin is not None:
        drive(execute(blocking, MARK, origin=None))
    declared = [Declared.parse(table, subscription) for table in tables]
    applier = _Applier(blocking, {table.name: table for table in declared}, link)
    places = {table.name: place for place, table in enumerate(declared)}
    for is_emptied, some in groupby(changes, lambda change: change.operation == "TRUNCATE"):
        # One TRUNCATE may empty parents and children: the children first, which come last in the list.
        for change in sorted(some, key=lambda change: -places.get(change.table, 0)) if is_emptied else some:
            applier.apply(change)
    if origin is not None:
        drive(execute(blocking, MARK, origin=origin))


def service_for(
    tables: Sequence[str], *, to_sender: bool = False, subscription: str | None = None
) -> Callable[[list[Change], Connection], None]:
    """Return the service of a trigger that applies changes to these tables."""

    def apply(operations: list[Change], connection: Connection) -> None:
        apply_changes(connection, operations, tables=tables, to_sender=to_sender, subscription=subscription)

    return apply


# Say to the peer of a link that a row is none of its own.
_TAKE: Final = """INSERT INTO doubtless_link_changes (publication, work, operation, subscriber)
    SELECT doubtless_publication, {work}, :operation, '>' || :subscription
    FROM sysremoteuser WHERE doubtless_link = :link"""
_TAKE_AWAY: Final = {
    Dialect.SQLITE: _TAKE.format(work="COALESCE((SELECT number FROM doubtless_link_work WHERE id = 1), 0)"),
    Dialect.POSTGRESQL: _TAKE.format(work="txid_current()"),
}


@dataclass(slots=True)
class _Applier:
    connection: Connection
    tables: Mapping[str, Declared]
    #: The link by which the changes came.
    link: str | None
    _types: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    _texts: dict[tuple[object, ...], TextClause] = field(default_factory=dict[tuple[object, ...], TextClause])

    def apply(self, change: Change) -> None:
        declared = self.tables.get(change.table)
        if declared is None:
            raise ConfigurationError(
                "tables",
                f"{change.table} is not one of this link",
                "add it to the setting tables, or to tables=",
            )
        self._refuse_unknown(declared, change)
        shape = change.table, change.operation, tuple(change.key), tuple(change.new)
        if change.operation == "UPDATE" and any(name in change.new for name in change.key):
            self._make_room(change)
        clause = self._texts.get(shape)
        if clause is None:
            clause = self._texts[shape] = text(self._written(change))
        self.connection.execute(clause, self._bound(change))
        if change.operation == "INSERT" and self.link is not None and declared.subscription is not None:
            self._take_away(declared, change)

    def _make_room(self, change: Change) -> None:
        """Delete the row that has the new key of another row: it is overwritten."""
        table, new = _name(change.table), change.model_copy(update={"key": _key_after(change)})
        old_row = self._where(change)
        other = f"{self._where(new, 'n')} AND NOT ({old_row})"
        deleting = f"DELETE FROM {table} WHERE {other} AND EXISTS (SELECT 1 FROM {table} WHERE {old_row})"  # noqa: S608
        values = self._read("k", change.table, change.key) | self._read("n", change.table, new.key)
        self.connection.execute(text(deleting), values)

    def _take_away(self, declared: Declared, change: Change) -> None:
        """Let the sender of a new row delete it, if the row is not of its subscription."""
        where = f"{self._where(change)} AND {_of_subscription(declared)}"
        mine = f"SELECT 1 FROM {_name(change.table)} WHERE {where}"  # noqa: S608
        row = {"table": change.table, "operation": "DELETE", "key": change.key, "old": change.new}
        values = {"link": self.link, "subscription": declared.subscription, "operation": json.dumps(row)}
        taking = _TAKE_AWAY[Dialect(self.connection.dialect.name)]
        keys = self._read("k", change.table, change.key)
        self.connection.execute(text(f"{taking} AND NOT EXISTS ({mine})"), keys | values)

    def _refuse_unknown(self, declared: Declared, change: Change) -> None:
        if change.table not in self._types:
            self._types[change.table] = column_types(self.connection, change.table)
        allowed = declared.columns or tuple(self._types[change.table])
        unknown = [name for name in (*change.key, *change.new) if allowed and name not in allowed]
        if unknown or (change.operation != "TRUNCATE" and not change.key):
            raise ConfigurationError(
                "tables",
                f"a change of {change.table} has no key, or unknown columns: {', '.join(unknown)}",
                "add them here, or name the same columns at both ends",
            )

        if None in _key_after(change).values() or None in change.key.values():
            raise ConfigurationError(
                "tables",
                f"a row of {change.table} has no value in its primary key, so a change cannot name the row",
                "give the row a key at both ends, and let the database refuse NULL there",
            )

    def _written(self, change: Change) -> str:
        table, columns = _name(change.table), list(change.new)
        values = [self._value(change.table, name, f"n{number}") for number, name in enumerate(columns)]
        where = self._where(change)
        match change.operation:
            case "INSERT":
                overriding = "OVERRIDING SYSTEM VALUE " if self._types[change.table] else ""
                rest = [
                    f"{_name(name)} = excluded.{_name(name)}" for name in columns if name not in change.key
                ]
                doing = f"UPDATE SET {', '.join(rest)}" if rest else "NOTHING"
                return (
                    f"INSERT INTO {table} ({', '.join(map(_name, columns))}) {overriding}"
                    f"VALUES ({', '.join(values)}) "
                    f"ON CONFLICT ({', '.join(map(_name, change.key))}) DO {doing}"
                )
            case "UPDATE":
                sets = ", ".join(
                    f"{_name(name)} = {value}" for name, value in zip(columns, values, strict=True)
                )
                return f"UPDATE {table} SET {sets} WHERE {where}"  # noqa: S608
            case "DELETE":
                return f"DELETE FROM {table} WHERE {where}"  # noqa: S608
            case "TRUNCATE":
                declared = self.tables[change.table]
                if declared.by is None or declared.subscription is None:
                    return f"DELETE FROM {table}"  # noqa: S608
                return f"DELETE FROM {table} WHERE {_of_subscription(declared)}"  # noqa: S608

    def _where(self, change: Change, letter: str = "k") -> str:
        """Return the condition on the row with the key of a change."""
        return " AND ".join(
            f"{_name(name)} = {self._value(change.table, name, f'{letter}{number}')}"
            for number, name in enumerate(change.key)
        )

    def _value(self, table: str, column: str, parameter: str) -> str:
        type_ = self._types[table].get(column)
        return (
            f":{parameter}" if type_ is None else f"CAST(:{parameter} AS {type_.replace(':', chr(92) + ':')})"
        )

    def _bound(self, change: Change) -> dict[str, Any]:
        if change.operation == "TRUNCATE":
            subscription = self.tables[change.table].subscription
            return {} if subscription is None else {"subscription": subscription}
        values = self._read("n", change.table, change.new)
        return values if change.operation == "INSERT" else values | self._read("k", change.table, change.key)

    def _read(self, letter: str, table: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values for the places that begin with a letter."""
        as_text = bool(self._types[table])
        return {
            f"{letter}{number}": _read(value, as_text=as_text) for number, value in enumerate(values.values())
        }


def _key_after(change: Change) -> Values:
    """Return the key of a row after its change."""
    return {name: change.new.get(name, value) for name, value in change.key.items()}


def _of_subscription(declared: Declared) -> str:
    """Return the condition on the rows that the peer subscribes to."""
    return f"CAST({_name(declared.by or '')} AS TEXT) = :subscription"


#: How to read values that JSON does not have.
_READ: Final[Mapping[str, Callable[[str], Any]]] = {"bytes": bytes.fromhex, "real": float}


def _read(value: Any, *, as_text: bool) -> Any:
    """Return a value for the driver; PostgreSQL reads all of them but bytes from text."""
    if isinstance(value, dict):
        ((form, written),) = cast("dict[str, str]", value).items()
        value = _READ[form](written)
    return value if value is None or isinstance(value, bytes) or not as_text else str(value)


def _name(name: str) -> str:
    return quoted_name(name).replace(":", "\\:")
