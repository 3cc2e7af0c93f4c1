"""Write rows inside the transaction of an atomic sink: into a table, in bulk.

PostgreSQL takes rows by COPY, SQLite by one prepared statement.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from history.errors import ConfigurationError
from history.sql.statements.dialects import quoted_name
from history.support.rendering import shown
from triggers.service.checking import check_text, pointing
from triggers.spark.rows.messages import in_utc, plain

__all__ = ["Connection", "RowsWriter", "TableWriter", "into_table"]

#: One row: the values by the names of the stream's columns.
SqlRow = Mapping[str, Any]

#: Writes rows over a connection that has the transaction open, and must not end it.
RowsWriter = Callable[[Connection, Sequence[SqlRow]], Any]

#: The temporary table for rows that may replace others.
_STAGE = "doubtless_rows"


@pointing()
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
        replacing: the columns of a unique key. A row with an existing key replaces the row in the table. A
            key with a null is unlike any other key, as in SQL, so its row replaces none.
        newest: with ``replacing``, a column that says which of two rows is newer. An older row changes
            nothing, and null is older than any value. Without it, the row that is written later stays.

    Raises:
        ConfigurationError: a name is not text, is empty or occurs twice, a list of names is text, ``newest``
            is given without ``replacing`` or is in it, or a column of these two is not written.
    """
    check_text("table", table, "name a table, such as 'bookings' or 'shop.bookings'")
    if not all(table.split(".")):
        raise ConfigurationError("table", f"{shown(table)} holds an empty name", "name a table")
    written, key = None if columns is None else _names("columns", columns), _names("replacing", replacing)
    if written == ():
        raise ConfigurationError("columns", "nothing is written", "name columns, or leave it out for all")
    if newest is not None:
        check_text("newest", newest, "name a column of the stream")
        if not key:
            raise ConfigurationError("newest", "nothing is replaced", "name the key: replacing=['order_id']")
        if newest in key:
            problem = f"{newest!r} is in the key, so no row would ever be newer than the row of its key"
            raise ConfigurationError("newest", problem, "name a column that is not in replacing=")
    if written is not None:
        _check_names({"replacing": key, "newest": _named(newest)}, written, "columns= has")
    return TableWriter(table, written, key, newest)


def _names(setting: str, names: Any) -> tuple[str, ...]:
    """Return a user's list of columns."""
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        problem, example = f"{shown(names)} is no list", names if isinstance(names, str) else "order_id"
        raise ConfigurationError(setting, problem, f"give a list: {setting}=[{shown(example)}]")
    listed = tuple(names)
    for name in listed:
        check_text(setting, name, "name a column of the stream")
    if len({*listed}) < len(listed):
        raise ConfigurationError(setting, f"{shown(listed)} names a column twice", "name each column once")
    return listed


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
        """Keep one row of each key: PostgreSQL replaces no row twice in one statement.

        A key with a null is unlike any other key, and each of its rows stays.
        """
        kept: dict[tuple[Any, ...], SqlRow] = {}
        for number, row in enumerate(rows):
            key = tuple(in_utc(row[name]) for name in self.replacing)
            if any(part is None for part in key):
                key = (*key, number)
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
    return there is None or (value is not None and in_utc(value) > in_utc(there))


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
    if isinstance(value, dict | tuple):  # a tuple is a pair of a map
        return True
    return isinstance(value, list) and any(map(_holds_fields, cast("Any", value)))


def _for_sqlite(value: Any) -> Any:
    match value:
        case dict() | list():
            return json.dumps(plain(value))
        case datetime():
            return in_utc(value).isoformat(" ")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return str(value)
        case _:
            return value
