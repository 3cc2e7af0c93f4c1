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
    def parse(cls, words: str, subscription: str | None = None) -> "Declared":
        """Read ``orders``, ``customers(id, name)`` or ``orders subscribe by rep``.

        Raises:
            ConfigurationError: it is neither.
        """
        found = _DECLARED.fullmatch(words)
        columns = () if found is None or found[2] is None else tuple(map(str.strip, found[2].split(",")))
        if found is None or not found[1] or not all(columns) or (found[2] is not None and not columns):
            raise ConfigurationError(
                "tables", f"{words!r} names no table", "write 'orders' or 'customers(id, name)'"
            )
        if found[3] is not None and not found[3]:
            raise ConfigurationError(
                "tables", f"{words!r} names no column", "write 'orders subscribe by rep'"
            )
        return cls(found[1], columns, found[3], None if found[3] is None else subscription)


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
        found = {column["name"]: column.get("computed") is None for column in inspector.get_columns(name)}
    except NoSuchTableError as error:
        raise ConfigurationError(
            "tables", f"there is no table {name} in this database", "correct the name, or create the table"
        ) from error
    key = tuple(inspector.get_pk_constraint(name)["constrained_columns"])
    if not key:
        raise ConfigurationError(
            "tables",
            f"{name} has no primary key, so a change of it cannot name its row",
            "give the table a primary key, or leave it out",
        )
    refuse_missing("has no column", declared, [one for one in declared.columns if not found.get(one)])
    columns = declared.columns or tuple(one for one, stored in found.items() if stored)
    refuse_missing("needs its primary key, with", declared, [one for one in key if one not in columns])
    by = [] if declared.by is None else [declared.by]
    refuse_missing("has no column to subscribe by", declared, [one for one in by if one not in columns])
    return Captured(name, columns, key, column_types(connection, name), declared.by)


def column_types(connection: Connection, table: str) -> dict[str, str]:
    """Return the types of a table's columns; empty on SQLite, whose values have types instead."""
    if connection.dialect.name != "postgresql":
        return {}
    found: Sequence[tuple[str, str]] = [
        (str(name), str(kind)) for name, kind in connection.execute(_TYPES, {"table": table})
    ]
    return dict(found)


def refuse_missing(problem: str, declared: Declared, missing: Sequence[str]) -> None:
    """Refuse a table without some of the declared columns.

    Raises:
        ConfigurationError: some are ``missing``.
    """
    if missing:
        raise ConfigurationError(
            "tables", f"{declared.name} {problem} {', '.join(missing)}", "correct the names of its columns"
        )
