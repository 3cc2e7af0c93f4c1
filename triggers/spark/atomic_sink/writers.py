"""Write rows inside the transaction of an atomic sink: into a table, in bulk.

PostgreSQL takes rows by COPY, SQLite by one prepared statement.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from history.errors import ConfigurationError
from history.sql.statements.dialects import quoted_name
from history.support.rendering import shown
from triggers.spark.rows.messages import plain

__all__ = ["Connection", "RowsWriter", "TableWriter", "into_table"]

#: One row: the values by the names of the stream's columns.
SqlRow = Mapping[str, Any]

#: Writes rows over a connection that has the transaction open, and must not end it.
RowsWriter = Callable[[Connection, Sequence[SqlRow]], Any]

#: The temporary table for rows that may replace others.
_STAGE = "doubtless_rows"


def into_table(
    table: str,
    *,
    columns: Sequence[str] | None = None,
    replacing: Sequence[str] = (),
    newest: str | None = None,
) -> "TableWriter":
    """Return a writer of rows into a table of the history's database.

    Args:
        table: its name, maybe with a schema before it: "bookings" or "shop.bookings".
        columns: the columns of the stream that are written, under the same names; all of them by default.
        replacing: the columns of a unique key. A row with an existing key replaces the row in the table.
        newest: with ``replacing``, a column that says which of two rows is newer. An older row changes
            nothing, and null is older than any value. Without it, the row that is written later stays.

    Raises:
        ConfigurationError: a name is empty, a list of names is a text, ``newest`` is given without
            ``replacing``, or a column of these two is not written.
    """
    for setting, names in (("columns", columns), ("replacing", replacing)):
        if isinstance(names, str):
            raise ConfigurationError(
                setting, f"{shown(names)} is a text", f"give a list: {setting}=[{shown(names)}]"
            )
    if newest is not None and not replacing:
        raise ConfigurationError("newest", "nothing is replaced", "name the key: replacing=['order_id']")
    if not table or (columns is not None and not columns):
        raise ConfigurationError("into_table", "an empty name writes nowhere", "name a table and its columns")
    if columns is not None:
        _check_names({"replacing": replacing, "newest": _named(newest)}, columns, "columns= has")
    return TableWriter(table, None if columns is None else tuple(columns), tuple(replacing), newest)


@dataclass(frozen=True, slots=True)
class TableWriter:
    """Made by :func:`into_table`."""

    table: str
    columns: tuple[str, ...] | None
    replacing: tuple[str, ...]
    newest: str | None

    def check(self, stream: Sequence[str]) -> None:
        """Refuse a stream without a column that is written; ``stream`` has the names of its columns.

        Raises:
            ConfigurationError: naming the setting and the column.
        """
        settings = {"columns": self.columns or (), "replacing": self.replacing, "newest": _named(self.newest)}
        _check_names(settings, stream, "the stream has")

    def __call__(self, connection: Connection, rows: Sequence[SqlRow]) -> None:
        """Write rows, all or none."""
        columns = self.columns or tuple(rows[0])
        if connection.dialect.name == "postgresql":
            self._copy(connection, rows, columns)
        else:
            self._insert(connection, rows, columns)

    def _copy(self, connection: Connection, rows: Sequence[SqlRow], columns: Sequence[str]) -> None:
        names, target = _listed(columns), _quoted(self.table)
        # Over the driver itself: SQLAlchemy has no COPY, and mistakes some characters in names for
        # parameters.
        driver: Any = connection.connection.driver_connection
        try:
            with driver.cursor() as cursor:
                if not self.replacing:
                    _fill(cursor, target, columns, rows)
                    return
                cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{_STAGE}")
                shape = f"SELECT {names} FROM {target} WITH NO DATA"  # noqa: S608  (quoted)
                cursor.execute(f"CREATE TEMPORARY TABLE {_STAGE} ON COMMIT DROP AS {shape}")
                _fill(cursor, _STAGE, columns, self._last_of_each_key(rows))
                moved = f"INSERT INTO {target} ({names}) SELECT {names} FROM {_STAGE}"  # noqa: S608  (quoted)
                cursor.execute(moved + self._conflict(columns))
        except Exception as error:
            if getattr(error, "sqlstate", None) is None and not driver.closed:
                raise
            # In SQLAlchemy's form: another try of the transaction may succeed.
            raise DBAPIError(f"COPY {target}", None, error, connection_invalidated=driver.closed) from error

    def _insert(self, connection: Connection, rows: Sequence[SqlRow], columns: Sequence[str]) -> None:
        markers = ", ".join("?" * len(columns))
        into = f"INSERT INTO {_quoted(self.table)} ({_listed(columns)}) VALUES ({markers})"  # noqa: S608  (quoted)
        values = [tuple(_for_sqlite(row[name]) for name in columns) for row in rows]
        connection.exec_driver_sql(into + self._conflict(columns), values)

    def _conflict(self, columns: Sequence[str]) -> str:
        if not self.replacing:
            return ""
        kept = [name for name in columns if name not in self.replacing]
        if not kept:
            return f" ON CONFLICT ({_listed(self.replacing)}) DO NOTHING"
        taken = ", ".join(f"{quoted_name(name)} = excluded.{quoted_name(name)}" for name in kept)
        update = f" ON CONFLICT ({_listed(self.replacing)}) DO UPDATE SET {taken}"
        if self.newest is None:
            return update
        name, table = quoted_name(self.newest), quoted_name(self.table.rpartition(".")[2])
        return f"{update} WHERE excluded.{name} > {table}.{name} OR {table}.{name} IS NULL"

    def _last_of_each_key(self, rows: Sequence[SqlRow]) -> Sequence[SqlRow]:
        """Keep one row of each key: PostgreSQL replaces no row twice in one statement."""
        kept: dict[tuple[Any, ...], SqlRow] = {}
        for row in rows:
            key = tuple(row[name] for name in self.replacing)
            there = kept.get(key)
            if there is None or self.newest is None or _is_newer(row[self.newest], there[self.newest]):
                kept[key] = row
        return list(kept.values())


def _check_names(settings: Mapping[str, Sequence[str]], there: Sequence[str], which: str) -> None:
    for setting, names in settings.items():
        for name in names:
            if name not in there:
                problem = f"{which} no column {name!r}, only {', '.join(there)}"
                raise ConfigurationError(f"into_table: {setting}", problem, "name a column that is written")


def _named(name: str | None) -> Sequence[str]:
    return () if name is None else (name,)


def _is_newer(value: Any, there: Any) -> bool:
    """Whether a value is newer than another, by the rule of :meth:`TableWriter._conflict`: null is oldest."""
    return there is None or (value is not None and value > there)


def _fill(cursor: Any, table: str, columns: Sequence[str], rows: Sequence[SqlRow]) -> None:
    with cursor.copy(f"COPY {table} ({_listed(columns)}) FROM STDIN") as copying:
        for row in rows:
            copying.write_row([_for_postgres(row[name]) for name in columns])


def _quoted(table: str) -> str:
    return ".".join(quoted_name(part) for part in table.split("."))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted_name, names))


def _for_postgres(value: Any) -> Any:
    # PostgreSQL has no arrays of structs.
    return json.dumps(plain(value)) if _holds_fields(value) else value


def _holds_fields(value: Any) -> bool:
    if isinstance(value, dict):
        return True
    return isinstance(value, list) and any(map(_holds_fields, cast("Any", value)))


def _for_sqlite(value: Any) -> Any:
    match value:
        case dict() | list():
            return json.dumps(plain(value))
        case datetime() | date():
            return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
        case Decimal():
            return str(value)
        case _:
            return value
