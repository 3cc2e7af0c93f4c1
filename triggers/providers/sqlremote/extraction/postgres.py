"""The form of PostgreSQL's values in the file: PostgreSQL's own text if Python has no equal value.

In Python an interval of one month equals 30 days, JSON's null equals SQL's, a long number within JSON loses
digits, and infinity is not a date. PostgreSQL reads its own text back without a change.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Date,
    DateTime,
    Integer,
    LargeBinary,
    Numeric,
    Select,
    String,
    Table,
    Text,
    TextClause,
    Time,
    Uuid,
    select,
    text,
)
from sqlalchemy import cast as as_type

from history.sql.statements.dialects import quoted_name
from triggers.providers.sqlremote.capture.declared import column_types

#: Python has the same values for columns of these types.
_SAME: Final = (Boolean, Integer, Numeric, String, LargeBinary, Uuid)

#: Python has most values of these types: all but infinity, and years before 1 or beyond 9999.
_INSTANTS: Final[Mapping[type, Callable[[str], Any]]] = {
    Date: date.fromisoformat,
    DateTime: datetime.fromisoformat,
    Time: time.fromisoformat,
}

#: Text must mean the same at both ends; and a table may take longer than any statement of a link.
SETTINGS: Final = (
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL datestyle = 'ISO, YMD'",
    "SET LOCAL intervalstyle = 'postgres'",
    "SET LOCAL lc_monetary = 'C'",
)


def settle(connection: Connection) -> None:
    """Let this transaction take its time, and write text as the other end reads it."""
    for setting in SETTINGS:
        connection.execute(text(setting))


def reading(table: Table) -> Select[Any]:
    """Return the statement that reads a table."""
    return select(
        *(column if isinstance(column.type, _SAME) else as_type(column, Text) for column in table.columns)
    )


def as_read(table: Table, row: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a row from :func:`reading`; an instant that Python has becomes one again."""
    return [_instant(column, value) for column, value in zip(table.columns, row, strict=True)]


def _instant(column: Column[Any], value: Any) -> Any:
    for column_type, parse in _INSTANTS.items():
        if isinstance(column.type, column_type) and isinstance(value, str):
            try:
                return parse(value)
            except ValueError:
                return value
    return value


def inserting(connection: Connection, table: str, columns: Sequence[str]) -> TextClause:
    """Return the statement that inserts values as :func:`as_text` writes them, as ``p0``, ``p1`` ...

    Even a column that counts by itself, ALWAYS, gets its value.
    """
    types = column_types(connection, table)
    names = ", ".join(map(quoted_name, columns))
    values = ", ".join(f"CAST(:p{index} AS {types[name]})" for index, name in enumerate(columns))
    into = f"INSERT INTO {quoted_name(table)} ({names})".replace(":", "\\:")
    return text(f"{into} OVERRIDING SYSTEM VALUE VALUES ({values})")


# What PostgreSQL does not write of an instant: zeros at the end of a second, and no minutes of a zone.
_SHORTER: Final = re.compile(r"(?<=[1-9])0+(?=[+-]|$)(?<=\.\d{6})|(?<=[+-]\d\d):00$")


def as_captured(value: Any) -> Any:
    """Return a value for SQLite in the form in which a captured change of PostgreSQL has it."""
    match value:
        case datetime():
            return _SHORTER.sub("", str(value if value.tzinfo is None else value.astimezone(UTC)))
        case time():
            return _SHORTER.sub("", str(value))
        case date():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case _:
            return value


def as_text(value: Any) -> Any:
    """Return a value as PostgreSQL reads it, for any column; bytes and None as they are."""
    match value:
        case None | bytes() | str():
            return value
        case dict() | list():
            return json.dumps(cast("Any", value))
        case timedelta():
            return f"{value // timedelta(microseconds=1)} microseconds"
        case date() | time():
            return value.isoformat()
        case _:
            return str(value)
