"""SQL tables: checking for one, making one, and adding tables that older versions did not make."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Executable, Index, Table, TextClause, text
from sqlalchemy.schema import CreateIndex, CreateTable

from history.bridge import settled
from history.errors import HistoryUnavailableError
from history.sql.database.engine import AnyConnection, Database, Pooled, Step, fetch
from history.sql.statements.dialects import Dialect, statement

T = TypeVar("T")

# Whether a table is there. Reading pg_class shows tables that others made during the transaction.
EXISTS = statement(
    sqlite="SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = :name",
    postgresql="SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass(CAST(:name AS TEXT))",
)

#: In the ``info`` of an index: the only dialect that has it.
ONLY = "only"

#: In the ``info`` of a table: its storage parameters in PostgreSQL, by their names.
STORAGE = "storage"

#: The parameters of a table whose rows come and go. PostgreSQL's own let a fifth of a table be dead rows.
CLEAN_OFTEN = {
    "autovacuum_vacuum_scale_factor": "0.02",
    "autovacuum_vacuum_threshold": "1000",
    "autovacuum_vacuum_insert_scale_factor": "0.2",
}

# One creator at a time; on SQLite, BEGIN IMMEDIATE does this already. The number is "doubtles" in ASCII.
ONE_CREATOR = statement(
    sqlite="SELECT 1",
    postgresql="SELECT pg_advisory_xact_lock(7237132191928182131)",
)


async def table_exists(connection: AnyConnection, table: Table) -> bool:
    """Whether a table is there."""
    ((there,),) = await fetch(connection, EXISTS, name=table.name)
    return bool(there)


def indexes_of(table: Table, dialect: str) -> Sequence[Index]:
    """Return the indexes that a table has in a dialect, by their names."""
    return sorted(
        (index for index in table.indexes if index.info.get(ONLY, dialect) == dialect),
        key=lambda index: str(index.name),
    )


def ddl_of(table: Table, dialect: str, *, if_not_exists: bool = False) -> Iterator[Executable]:
    """Yield the statements that make a table."""
    yield CreateTable(table, if_not_exists=if_not_exists)
    for index in indexes_of(table, dialect):
        yield CreateIndex(index, if_not_exists=if_not_exists)
    if STORAGE in table.info and dialect == Dialect.POSTGRESQL:
        yield storage_ddl(table)


def storage_ddl(table: Table, *, only: Collection[str] | None = None) -> TextClause:
    """Return the statement that gives a table its storage parameters, or ``only`` those of these names."""
    values = table.info[STORAGE].items()
    parameters = ", ".join(f"{name} = {value}" for name, value in values if only is None or name in only)
    return text(f"ALTER TABLE {table.name} SET ({parameters})")


async def make_table(connection: AnyConnection, table: Table) -> None:
    """Make a table and its indexes, inside a transaction, unless it exists.

    An existing table is not touched: even a look for its indexes would lock it against its users. A
    serializable transaction that waited for another creator does not see its tables, so each statement looks.
    """
    if not await table_exists(connection, table):
        for ddl in ddl_of(table, connection.dialect.name, if_not_exists=True):
            await settled(connection.execute(ddl))


async def make_tables(connection: AnyConnection, tables: Iterable[Table]) -> None:
    """Make tables, one creator at a time."""
    await fetch(connection, ONE_CREATOR)
    for table in tables:
        await make_table(connection, table)


@dataclass(slots=True)
class AddedTables:
    """A database that makes, before its first step, tables that older versions did not make.

    ``look`` returns whether they exist and ``make`` adds them; ``looking`` and ``creating`` name these steps
    in errors. Threads and processes may do this at the same time: the second one finds everything there.
    """

    inner: Database
    look: Step[bool]
    make: Step[None]
    looking: str
    creating: str
    ready: bool = False
    _times_replaced: int = 0

    @property
    def is_ready(self) -> bool:
        """Whether they exist in the present file."""
        return self.ready and self._times_replaced == self.inner.times_replaced

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:
        """Do one step after they exist; repeat it if another file, maybe without them, was found.

        Raises:
            HistoryUnavailableError: the server did not answer, or refused.
            ConfigurationError: a newer version, or another program, wrote the tables.
        """
        await self.prepare()
        try:
            return await self.inner.run(doing, step, atomic=atomic)
        except HistoryUnavailableError:
            if self.is_ready:
                raise
        await self.prepare()
        return await self.inner.run(doing, step, atomic=atomic)

    async def prepare(self) -> Pooled | None:
        """Make the missing tables; return the pool, or None inside a caller's transaction."""
        if not self.is_ready:
            times = self.inner.times_replaced
            if not await self.inner.run(self.looking, self.look):
                await self._before_making()
                await self.inner.run(self.creating, self.make, atomic=True)
            self.ready, self._times_replaced = True, times
        return self.inner if isinstance(self.inner, Pooled) else None

    async def _before_making(self) -> None:
        """Do nothing: a subclass may have something to do before the transaction that makes them."""
