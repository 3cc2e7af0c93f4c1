"""The tables of a link, as its settings name them and as the database has them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import NoSuchTableError

from history.errors import ConfigurationError

_DECLARED: Final = re.compile(
    r"\s*([^()]*?)\s*(?:\(([^()]*)\)\s*)?(?:\bsubscribe\s+by\b\s*([^()]*?)\s*)?", re.IGNORECASE
)

# The types of a table's columns, without lengths: a cast to a type with a length would silently cut a text.
_TYPES: Final = text(
    "SELECT attname, format_type(atttypid, -1) FROM pg_attribute "
    "WHERE attrelid = to_regclass(quote_ident(:table)) AND attnum > 0 AND NOT attisdropped"
)

# Whether the primary key of a table is DEFERRABLE.
_DEFERRABLE: Final = text(
    "SELECT COUNT(*) FROM pg_index "
    "WHERE indrelid = to_regclass(quote_ident(:table)) AND indisprimary AND NOT indimmediate"
)


@dataclass(frozen=True, slots=True)
class Declared:
    """A table that a link carries; all its columns unless some are named.

    With ``by`` and ``subscription``, the link carries the rows whose column ``by`` has that value, as text.
    """

    name: str
    columns: tuple[str, ...] = ()
    by: str | None = None
    subscription: str | None = None

    @classmethod
    def parse(cls, text: str, subscription: str | None = None) -> "Declared":
        """Read ``orders``, ``customers(id, name)`` or ``orders subscribe by rep``.

        Raises:
            ConfigurationError: it is neither.
        """
        parts = _DECLARED.fullmatch(text)
        columns = () if parts is None or parts[2] is None else tuple(map(str.strip, parts[2].split(",")))
        if parts is None or not parts[1] or not all(columns) or (parts[2] is not None and not columns):
            raise ConfigurationError(
                "tables", f"{text!r} names no table", "write 'orders' or 'customers(id, name)'"
            )
        if parts[3] is not None and not parts[3]:
            raise ConfigurationError("tables", f"{text!r} names no column", "write 'orders subscribe by rep'")
        return cls(parts[1], columns, parts[3], None if parts[3] is None else subscription)


@dataclass(frozen=True, slots=True)
class Captured:
    """A table whose changes are captured. ``types`` are PostgreSQL's names, by column; empty on SQLite.

    The value of the column ``by`` says who gets a row.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    types: dict[str, str]
    by: str | None = None


def captured(connection: Connection, declared: Declared) -> Captured:
    """Return a table as the database has it, without columns that the database computes.

    Raises:
        ConfigurationError: the table, one of its columns or its primary key is missing.
    """
    inspector, name = inspect(connection), declared.name
    try:
        is_stored = {column["name"]: column.get("computed") is None for column in inspector.get_columns(name)}
        key = tuple(inspector.get_pk_constraint(name)["constrained_columns"])
    except NoSuchTableError as error:
        raise ConfigurationError(
            "tables", f"there is no table {name} in this database", "correct the name, or create the table"
        ) from error
    if not key:
        raise ConfigurationError(
            "tables",
            f"{name} has no primary key, so a change of it cannot name its row",
            "give the table a primary key, or leave it out",
        )
    refuse_missing(
        "has no column", declared, [column for column in declared.columns if not is_stored.get(column)]
    )
    columns = declared.columns or tuple(column for column, stored in is_stored.items() if stored)
    refuse_missing(
        "needs its primary key, with", declared, [column for column in key if column not in columns]
    )
    by = [] if declared.by is None else [declared.by]
    refuse_missing(
        "has no column to subscribe by", declared, [column for column in by if column not in columns]
    )
    return Captured(name, columns, key, column_types(connection, name), declared.by)


def column_types(connection: Connection, table: str) -> dict[str, str]:
    """Return the types of a table's columns; empty on SQLite, whose values have types instead."""
    if connection.dialect.name != "postgresql":
        return {}
    types: Sequence[tuple[str, str]] = [
        (str(name), str(type_)) for name, type_ in connection.execute(_TYPES, {"table": table})
    ]
    return dict(types)


def refuse_deferrable(connection: Connection, table: str) -> None:
    """Refuse a table in which two rows may have the same key for a while: a change cannot name one of them.

    Raises:
        ConfigurationError: its primary key is DEFERRABLE.
    """
    is_postgres = connection.dialect.name == "postgresql"
    if is_postgres and connection.execute(_DEFERRABLE, {"table": table}).scalar_one():
        raise ConfigurationError(
            "tables",
            f"the primary key of {table} is DEFERRABLE, so two rows may have the same key for a while, and a "
            "change cannot name its row",
            "make the key NOT DEFERRABLE, or leave the table out",
        )


def refuse_missing(problem: str, declared: Declared, missing: Sequence[str]) -> None:
    """Refuse a table without some of the declared columns.

    Raises:
        ConfigurationError: some are ``missing``.
    """
    if missing:
        raise ConfigurationError(
            "tables", f"{declared.name} {problem} {', '.join(missing)}", "correct the names of its columns"
        )
