"""The rows of the application's tables, read and replaced, inside a transaction."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from typing import Any, Final
from warnings import catch_warnings, simplefilter

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Row,
    Select,
    Table,
    Text,
    cast,
    delete,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.exc import (
    DataError,
    IntegrityError,
    NoSuchTableError,
    OperationalError,
    ProgrammingError,
    SAWarning,
)

from history.errors import ConfigurationError
from history.sql.statements.dialects import Dialect
from triggers.providers.sqlremote.capture.declared import Declared, refuse_missing
from triggers.providers.sqlremote.extraction import postgres
from triggers.providers.sqlremote.extraction.document import Extract, Shape

#: How many rows are read, or inserted, at a time.
AT_ONCE: Final = 1000

# The counter of a column, if it has one.
COUNTER: Final = text("SELECT pg_get_serial_sequence(quote_ident(:table), :column)")


def take_time(connection: Connection) -> None:
    """Let the statements of this transaction take as long as they need, and mean the same at both ends."""
    if _is_postgres(connection):
        postgres.settle(connection)


def _is_postgres(connection: Connection) -> bool:
    return connection.dialect.name == Dialect.POSTGRESQL


def tables_of(connection: Connection, names: Sequence[Declared]) -> Sequence[Table]:
    """Return tables as the database has them, without columns that it computes itself or that are not named.

    Values of SQLite are as they are stored, whatever the declared types of its columns.

    Raises:
        ConfigurationError: a table does not exist.
    """
    return [_table(connection, name) for name in names]


def _table(connection: Connection, declared: Declared) -> Table:
    name = declared.name
    try:
        with catch_warnings():  # of types that SQLAlchemy does not know
            simplefilter("ignore", SAWarning)
            table = Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
    except NoSuchTableError as error:
        raise ConfigurationError(
            "tables", f"there is no table {name} in this database", "correct the name, or create the table"
        ) from error
    stored = {str(column.name): column for column in table.columns if column.computed is None}
    refuse_missing("has no column", declared, [column for column in declared.columns if column not in stored])
    columns = [
        column
        for column_name, column in stored.items()
        if not declared.columns or column_name in declared.columns
    ]
    if not _is_postgres(connection):
        return Table(name, MetaData(), *(Column[Any](column.name) for column in columns))
    # JSON comes as its text.
    kinds = (None if isinstance(column.type, JSON) else column.type for column in columns)
    return Table(
        name,
        MetaData(),
        *(Column(column.name, column_type) for column, column_type in zip(columns, kinds, strict=True)),
    )


def shape_of(table: Table) -> Shape:
    """Return the description of a table for a file."""
    return Shape(name=table.name, columns=tuple(column.name for column in table.columns))


def rows_of(connection: Connection, declared: Declared, table: Table) -> Iterator[Sequence[Any]]:
    """Read the rows of a table that its link carries, some at a time."""
    if not _is_postgres(connection):
        yield from read(connection, select(table), declared, table)
        return
    for row in read(connection, postgres.reading(table), declared, table):
        yield postgres.as_read(table, row)


def read(
    connection: Connection, reading: Select[Any], declared: Declared, table: Table
) -> Iterator[Row[Any]]:
    """Execute a statement that reads a table, for the rows that its link carries.

    Raises:
        ConfigurationError: a text of SQLite is not UTF-8.
    """
    statement = reading.where(*_subscribed(declared, table))
    try:
        yield from connection.execute(statement, execution_options={"yield_per": AT_ONCE})
    except OperationalError as error:
        problem, is_text, _ = str(error.orig).partition(" with text ")
        if not is_text:
            raise
        raise ConfigurationError(
            "tables", f"{table.name} cannot be read: {problem}", "correct the text, or store it as a BLOB"
        ) from error


def _subscribed(declared: Declared, table: Table) -> Iterator[ColumnElement[bool]]:
    """Yield the condition on the rows of a table that its link carries; none if it carries all."""
    if declared.by is not None and declared.subscription is not None:
        refuse_missing("has no column", declared, [declared.by] if declared.by not in table.columns else [])
        yield cast(table.columns[declared.by], Text) == declared.subscription


def replace(connection: Connection, extract: Extract, declared: Sequence[Declared]) -> None:
    """Replace the rows by those of the file; of a ``declared`` table, only those that its link carries.

    Raises:
        ConfigurationError: a table, or one of its columns, does not exist, or the database refuses a row.
    """
    shapes = extract.begin.tables
    by_name = {own_table.name: own_table for own_table in declared}
    tables = tables_of(connection, [Declared(shape.name) for shape in shapes])
    for shape, table in zip(shapes, tables, strict=True):
        missing = [name for name in shape.columns if name not in table.columns]
        if missing:
            raise ConfigurationError(
                "tables", f"{table.name} has no column {', '.join(missing)} here", "add it, or extract again"
            )
    # Children before parents, which come first in the list.
    for table in reversed(tables):
        with _as_refusals(table):
            carried = by_name.get(table.name, Declared(table.name))
            connection.execute(delete(table).where(*_subscribed(carried, table)))
    for number, rows in groupby(extract.of_tables(), key=lambda row: row[0]):
        with _as_refusals(tables[number]):
            _insert(connection, tables[number], shapes[number], (values for _, values in rows))
    for table in tables:
        _count_on(connection, table)


@contextmanager
def _as_refusals(table: Table) -> Generator[None]:
    """Turn errors about the tables into refusals: the database answers, and would say the same again."""
    try:
        yield
    except (DataError, IntegrityError, ProgrammingError) as error:
        diagnosis = getattr(error.orig, "diag", None)
        message = getattr(diagnosis, "message_primary", None) or str(error.orig)
        raise ConfigurationError(
            "tables",
            f"the database refuses the new rows of {table.name}: {message}",
            "name parents before their children, and all connected tables; or correct the table here",
        ) from error


def _insert(connection: Connection, table: Table, shape: Shape, rows: Iterator[list[Any]]) -> None:
    is_postgres = _is_postgres(connection)
    names: Sequence[str] = (
        [f"p{index}" for index in range(len(shape.columns))] if is_postgres else shape.columns
    )
    into = postgres.inserting(connection, table.name, shape.columns) if is_postgres else insert(table)
    while piece := list(islice(rows, AT_ONCE)):
        write = postgres.as_text if is_postgres else postgres.as_captured
        written = (map(write, values) for values in piece)
        connection.execute(into, [dict(zip(names, values, strict=True)) for values in written])


def _count_on(connection: Connection, table: Table) -> None:
    """Let the counters of columns continue behind the greatest value; SQLite's do so by themselves."""
    if not _is_postgres(connection):
        return
    for column in table.columns:
        counter = connection.execute(COUNTER, {"table": table.name, "column": column.name}).scalar_one()
        greatest = connection.execute(select(func.max(column))).scalar_one() if counter is not None else None
        if greatest is not None:
            connection.execute(select(func.setval(counter, greatest)))
