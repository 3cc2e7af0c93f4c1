"""The tables as a script of SQL, made from the definitions by which the first use makes them."""

from collections.abc import Iterable, Iterator

from sqlalchemy import Executable, Sequence, Table, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect as DriverDialect
from sqlalchemy.schema import CreateSequence

from history.sql.statements.dialects import Dialect, Sql
from history.sql.statements.entries import ANCHOR
from history.sql.tables.history import FENCES, MARK_SCHEMA, METADATA, WRITE_AHEAD
from history.sql.tables.making import ddl_of
from history.sql.tables.offsets import OFFSETS


def history_script(dialect: Dialect) -> Iterator[str]:
    """Yield the statements that make a history in an empty database or schema."""
    if dialect is Dialect.SQLITE:
        yield str(WRITE_AHEAD[dialect])
    yield "BEGIN"
    yield from script_of([*METADATA.sorted_tables, OFFSETS], dialect, sequence=FENCES)
    yield from (_tidy(str(ANCHOR[dialect])), str(MARK_SCHEMA[dialect]))
    yield "COMMIT"


def script_of(
    tables: Iterable[Table], dialect: Dialect, *, sequence: Sequence | None = None
) -> Iterator[str]:
    """Yield the statements that make some tables, and on PostgreSQL a sequence."""
    if sequence is not None and dialect is Dialect.POSTGRESQL:
        yield sql_of(CreateSequence(sequence), dialect)
    for table in tables:
        for ddl in ddl_of(table, dialect):
            yield sql_of(ddl, dialect)


def sql_of(executable: Executable, dialect: Dialect) -> str:
    """Return a statement as text."""
    return _tidy(str(executable.compile(dialect=_driver(dialect))))  # type: ignore[attr-defined]


def filled(sql: Sql, dialect: Dialect, **values: int) -> str:
    """Return a statement with numbers in place of its parameters."""
    clause = text(str(sql)).bindparams(**values)
    return _tidy(str(clause.compile(dialect=_driver(dialect), compile_kwargs={"literal_binds": True})))


def _tidy(sql: str) -> str:
    return "\n".join(line.rstrip() for line in sql.strip().expandtabs(4).splitlines())


def _driver(dialect: Dialect) -> DriverDialect:
    made = postgresql.dialect if dialect is Dialect.POSTGRESQL else sqlite.dialect
    return made(paramstyle="named")
