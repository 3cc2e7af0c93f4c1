"""The rows of tables, read and replaced, inside a transaction; the tables are the application's own."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Column, Connection, MetaData, Table, delete, func, insert, select, text
from sqlalchemy.exc import NoSuchTableError

from history.errors import ConfigurationError
from history.sql.statements.dialects import Dialect
from triggers.providers.sqlremote.extraction.document import Extract, Shape

#: How many rows are read, or inserted, at once.
AT_ONCE: Final = 1000

# A table may take longer than any statement of a link.
TAKE_TIME: Final = text("SET LOCAL statement_timeout = 0")

# The counter of a column, if it has one.
COUNTER: Final = text("SELECT pg_get_serial_sequence(quote_ident(:table), :column)")


def take_time(connection: Connection) -> None:
    """Let the statements of this transaction take as long as they need."""
    if connection.dialect.name == Dialect.POSTGRESQL:
        connection.execute(TAKE_TIME)


def tables_of(connection: Connection, names: Sequence[str], *, raw: bool) -> Sequence[Table]:
    """Return tables as the database has them, without columns that it computes itself.

    ``raw`` takes the values of SQLite as they are stored, whatever its columns are declared as.

    Raises:
        ConfigurationError: there is none of a name.
    """
    return [_table(connection, name, raw=raw and connection.dialect.name == Dialect.SQLITE) for name in names]


def _table(connection: Connection, name: str, *, raw: bool) -> Table:
    try:
        found = Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
    except NoSuchTableError as error:
        raise ConfigurationError(
            "tables", f"there is no table {name} in this database", "correct the name, or create the table"
        ) from error
    columns = [column for column in found.columns if column.computed is None]
    if raw:
        return Table(name, MetaData(), *(Column[Any](column.name) for column in columns))
    return Table(name, MetaData(), *(Column(column.name, column.type) for column in columns))


def shape_of(table: Table) -> Shape:
    """Return what a file says of a table."""
    return Shape(name=table.name, columns=tuple(column.name for column in table.columns))


def rows_of(connection: Connection, table: Table) -> Iterator[Sequence[Any]]:
    """Read a table, some rows at a time."""
    yield from connection.execute(select(table), execution_options={"yield_per": AT_ONCE})


def replace(connection: Connection, extract: Extract) -> None:
    """Replace what is in the tables by what is in the file.

    Raises:
        ConfigurationError: a table, or one of its columns, is not there.
    """
    shapes = extract.begin.tables
    raw = extract.begin.dialect == Dialect.SQLITE
    tables = tables_of(connection, [shape.name for shape in shapes], raw=raw)
    for shape, table in zip(shapes, tables, strict=True):
        missing = [name for name in shape.columns if name not in table.columns]
        if missing:
            raise ConfigurationError(
                "tables", f"{table.name} has no column {', '.join(missing)} here", "add it, or extract anew"
            )
    # Children before parents, which stand first.
    for table in reversed(tables):
        connection.execute(delete(table))
    for number, rows in groupby(extract.of_tables(), key=lambda row: row[0]):
        _insert(connection, tables[number], shapes[number], (values for _, values in rows))
    for table in tables:
        _count_on(connection, table)


def _insert(connection: Connection, table: Table, shape: Shape, rows: Iterator[list[Any]]) -> None:
    piece: list[dict[str, Any]] = []
    for values in rows:
        piece.append(dict(zip(shape.columns, values, strict=True)))
        if len(piece) == AT_ONCE:
            connection.execute(insert(table), piece)
            piece = []
    if piece:
        connection.execute(insert(table), piece)


def _count_on(connection: Connection, table: Table) -> None:
    """Let the counters of columns go on behind what is there; SQLite's do by themselves."""
    if connection.dialect.name != Dialect.POSTGRESQL:
        return
    for column in table.columns:
        counter = connection.execute(COUNTER, {"table": table.name, "column": column.name}).scalar_one()
        greatest = connection.execute(select(func.max(column))).scalar_one() if counter is not None else None
        if greatest is not None:
            connection.execute(select(func.setval(counter, greatest)))
