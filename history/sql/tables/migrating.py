"""Tables that an older version made: what they lack, and how they are brought up to date.

They are compared with the definitions, so it does not matter which version made them. A worker also runs on
tables that are not up to date. On PostgreSQL, no statement stops the workers: an index is made while they
write.
"""

from collections.abc import AsyncIterator, Sequence

from sqlalchemy import Table
from sqlalchemy.schema import CreateIndex

from history.sql.database.engine import AnyConnection, Pooled, execute, fetch
from history.sql.statements.dialects import Dialect, statement
from history.sql.tables.history import METADATA, READ_META, SCHEMA, history_exists
from history.sql.tables.making import STORAGE, ddl_of, indexes_of, storage_ddl, table_exists
from history.sql.tables.script import sql_of

# The indexes of a table, and whether each can be used: a statement that was cut off leaves half an index.
INDEXES = statement(
    sqlite="SELECT name, TRUE AS whole FROM sqlite_master WHERE type = 'index' AND tbl_name = :table",
    postgresql="SELECT CAST(c.relname AS TEXT) AS name, i.indisvalid AS whole FROM pg_index AS i"
    " JOIN pg_class AS c ON c.oid = i.indexrelid WHERE i.indrelid = to_regclass(CAST(:table AS TEXT))",
)

# The storage parameters of a table, each as name=value.
PARAMETERS = statement(
    postgresql="SELECT unnest(reloptions) FROM pg_class WHERE oid = to_regclass(CAST(:table AS TEXT))",
)

#: The last step.
MARK = f"UPDATE doubtless_meta SET value = {SCHEMA} WHERE name = 'schema' AND value < {SCHEMA}"  # noqa: S608  (numbers)


async def warnings_about_age(connection: AnyConnection) -> Sequence[str]:
    """Return a warning if an older version made the tables."""
    return [
        f"the tables of the history have version {version}, and this doubtless makes version {SCHEMA}: they "
        "work, but slower; doubtless history migrate brings them up to date"
        for version in await _version(connection)
        if version < SCHEMA
    ]


async def migrate(database: Pooled, *, dry: bool) -> Sequence[str]:
    """Bring the tables of a history up to date; return the statements, which ``dry`` does not run.

    Raises:
        HistoryUnavailableError: the server did not answer.
        NotPermittedError: the role does not own the tables.
        ConfigurationError: a newer version, or another program, made the tables.
    """
    statements = await database.run("comparing its tables", changes)
    # One by one: PostgreSQL does not make an index beside its writers inside a transaction.
    for sql in statements if not dry else ():

        async def run(connection: AnyConnection, sql: str = sql) -> None:
            await execute(connection, statement(sql))

        await database.run("bringing its tables up to date", run)
    return statements


async def changes(connection: AnyConnection) -> Sequence[str]:
    """Return the statements that bring the tables up to date; none if there are no tables."""
    if not await history_exists(connection):
        return []
    changes = [sql for table in METADATA.sorted_tables async for sql in _changes(connection, table)]
    (version,) = await _version(connection)
    return [*changes, MARK] if changes or version < SCHEMA else []


async def _version(connection: AnyConnection) -> Sequence[int]:
    return [value for name, value in await fetch(connection, READ_META) if name == "schema"]


async def _changes(connection: AnyConnection, table: Table) -> AsyncIterator[str]:
    dialect = Dialect(connection.dialect.name)
    if not await table_exists(connection, table):
        for ddl in ddl_of(table, dialect):
            yield sql_of(ddl, dialect)
        return
    beside = " CONCURRENTLY" if dialect is Dialect.POSTGRESQL else ""
    there = {str(name): whole for name, whole in await fetch(connection, INDEXES, table=table.name)}
    wanted = indexes_of(table, dialect)
    for index in wanted:
        if not there.get(str(index.name)):
            if str(index.name) in there:
                yield f"DROP INDEX{beside} IF EXISTS {index.name}"
            made = sql_of(CreateIndex(index), dialect)
            yield made.replace(" INDEX ", f" INDEX{beside} IF NOT EXISTS ", 1)
    for index in sorted(table.indexes - set(wanted), key=lambda index: str(index.name)):
        if str(index.name) in there:
            yield f"DROP INDEX{beside} IF EXISTS {index.name}"
    if dialect is Dialect.POSTGRESQL and STORAGE in table.info:
        rows = await fetch(connection, PARAMETERS, table=table.name)
        if missing := table.info[STORAGE].keys() - {str(option).partition("=")[0] for (option,) in rows}:
            yield sql_of(storage_ddl(table, only=missing), dialect)
