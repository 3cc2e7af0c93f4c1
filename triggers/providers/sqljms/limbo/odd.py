"""Unreadable rows in limbo: they are taken as others are, whole, and parked by the process that took them."""

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Table

from history.sql.database.engine import AnyConnection, fetch
from history.sql.statements.dialects import Statement, statement
from triggers.providers.sqljms.limbo.tables import LIMBO_TABLES

#: The tables with rows of single messages.
_TABLES: Final = LIMBO_TABLES[1:]


def _raw(table: Table) -> Statement:
    names = [column.name for column in table.columns]
    # SQLite cannot return text that is not UTF-8.
    blobs = ", ".join(f"CAST({name} AS BLOB) AS {name}" for name in names)
    return statement(
        sqlite=f"SELECT {blobs} FROM {table.name} WHERE msg_id = :id",  # noqa: S608  (ours)
        postgresql=f"SELECT {', '.join(names)} FROM {table.name} WHERE msg_id = :id",  # noqa: S608  (ours)
    )


# The rows of a message, table by table.
RAW: Final = {table.name: _raw(table) for table in _TABLES}


@dataclass(frozen=True, slots=True)
class OddWaiting:
    """A taken message that cannot be read: its fields as bytes, and what is wrong with them."""

    id: int
    token: str | None
    problem: str
    fields: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])


async def odd_inside(connection: AnyConnection, number: int, token: str, problem: str) -> OddWaiting:
    """Read the rows of a message, as bytes."""
    fields: dict[bytes, bytes] = {b"msg_id": str(number).encode()}
    for table in _TABLES:
        rows = await fetch(connection, RAW[table.name], id=number)
        for index, row in enumerate(rows):
            where = table.name if len(rows) == 1 else f"{table.name}[{index}]"
            for column, value in zip(table.columns, row, strict=True):
                if value is not None and column.name != "msg_id":
                    fields[f"{where}.{column.name}".encode()] = _bytes(value)
    return OddWaiting(number, token, problem, fields)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
