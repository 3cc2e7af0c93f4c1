"""Rows that SQLite cannot return: text that is not UTF-8, bytes where JSON is made of a property.

SQLite's columns take any type, and one such row makes a query fail for all its rows. Then the messages are
read one by one, and the odd one is read as bytes.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlalchemy.exc import DBAPIError

from history.sql.database.engine import AnyConnection, AnyRow, fetch
from history.sql.statements.dialects import statement
from triggers.providers.sqljms.codec import COLUMNS

_RAW = ", ".join(f"CAST({name} AS BLOB) AS {name}" for name in COLUMNS)

# A message as bytes, whatever its row contains; for SQLite only.
RAW = statement(sqlite=f"SELECT {_RAW} FROM dms_msg WHERE msg_id = :number", postgresql="SELECT 1")  # noqa: S608

RAW_PROPERTIES = statement(
    sqlite="""SELECT CAST(name AS BLOB) AS name, CAST(data_type AS BLOB) AS data_type,
        CAST(value AS BLOB) AS value
    FROM dms_msg_properties WHERE msg_id = :number ORDER BY rowid""",
    postgresql="SELECT 1",
)


@dataclass(frozen=True, slots=True)
class OddRow:
    """A message that cannot be read as a row; ``fields`` are its columns and properties as bytes."""

    msg_id: int
    problem: str
    fields: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])


#: A row of a message, or its bytes.
EitherRow: TypeAlias = "AnyRow | OddRow"

#: Reads the rows of messages, by their numbers, in their order.
ReadRows = Callable[[Sequence[int]], Awaitable[Sequence[AnyRow]]]


async def read_each(connection: AnyConnection, numbers: Sequence[int], read: ReadRows) -> list[EitherRow]:
    """Read messages one by one, after reading them together has failed.

    Raises:
        DBAPIError: the error does not come from the content of a row.
    """
    rows: list[EitherRow] = []
    for number in numbers:
        try:
            rows += await read([number])
        except DBAPIError as error:
            if not is_of_a_row(error):
                raise
            fields = await _raw(connection, number)
            rows.append(OddRow(number, f"the row cannot be read ({str(error.orig)[:200]})", fields))
    return rows


async def read_together(connection: AnyConnection, numbers: Sequence[int], read: ReadRows) -> list[EitherRow]:
    """Read messages together; if one of them is odd, read them one by one."""
    try:
        return list(await read(numbers))
    except DBAPIError as error:
        if not is_of_a_row(error):
            raise
    return await read_each(connection, numbers, read)


def is_of_a_row(error: DBAPIError) -> bool:
    """Whether a query failed because of the content of a row, which another row need not share."""
    # pysqlite gives no code for text that it cannot decode; SQL functions fail with the general error code.
    code = getattr(error.orig, "sqlite_errorcode", None)
    return isinstance(error.orig, sqlite3.Error) and code in {None, sqlite3.SQLITE_ERROR}


async def _raw(connection: AnyConnection, number: int) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for row in await fetch(connection, RAW, number=number):
        columns = zip(COLUMNS, row, strict=True)
        fields |= {name.encode(): bytes(value) for name, value in columns if value is not None}
    for index, row in enumerate(await fetch(connection, RAW_PROPERTIES, number=number)):
        for name, value in zip(("name", "data_type", "value"), row, strict=True):
            if value is not None:
                fields[b"property-%d-%s" % (index, name.encode())] = bytes(value)
    return fields
