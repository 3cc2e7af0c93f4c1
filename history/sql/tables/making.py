"""Making SQL tables: whether one is there, one of them, and those that older versions did not make."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sqlalchemy import Table
from sqlalchemy.schema import CreateIndex, CreateTable

from history.bridge import settled
from history.errors import HistoryUnavailableError
from history.sql.database.engine import AnyConnection, Database, Step, fetch
from history.sql.statements.dialects import statement

T = TypeVar("T")

# Whether a table is there. Reading pg_class has a transaction see what others have made since it began.
EXISTS = statement(
    sqlite="SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = :name",
    postgresql="SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass(CAST(:name AS TEXT))",
)

# One creator at a time; SQLite's BEGIN IMMEDIATE has seen to it already. The number is "doubtles" in ASCII.
ONE_CREATOR = statement(
    sqlite="SELECT 1",
    postgresql="SELECT pg_advisory_xact_lock(7237132191928182131)",
)


async def table_exists(connection: AnyConnection, table: Table) -> bool:
    """Whether a table is there."""
    ((there,),) = await fetch(connection, EXISTS, name=table.name)
    return bool(there)


async def make_table(connection: AnyConnection, table: Table) -> None:
    """Make a table and its indexes, inside a transaction; what is there stays."""
    await settled(connection.execute(CreateTable(table, if_not_exists=True)))
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        await settled(connection.execute(CreateIndex(index, if_not_exists=True)))


async def make_tables(connection: AnyConnection, tables: Iterable[Table]) -> None:
    """Make tables, one creator at a time."""
    await fetch(connection, ONE_CREATOR)
    for table in tables:
        await make_table(connection, table)


class Prepares(Protocol):
    """Makes tables before a step that needs them."""

    @property
    def is_ready(self) -> bool:
        """Whether they are there, in the file that is there now."""
        ...

    async def prepare(self) -> object:
        """Make them if need be."""
        ...


async def run_prepared(
    tables: Prepares, database: Database, doing: str, step: Step[T], *, atomic: bool = False
) -> T:
    """Do one step behind its tables; again where its file turned out to be another, which may have none."""
    await tables.prepare()
    try:
        return await database.run(doing, step, atomic=atomic)
    except HistoryUnavailableError:
        if tables.is_ready:
            raise
    await tables.prepare()
    return await database.run(doing, step, atomic=atomic)


@dataclass(slots=True)
class AddedTables:
    """A database that makes, before its first step, tables that older versions did not make.

    ``look`` tells whether they are there and ``make`` adds them; ``looking`` and ``creating`` say so in
    errors. Threads and processes may do this at once: the second one finds everything there.
    """

    database: Database
    look: Step[bool]
    make: Step[None]
    looking: str
    creating: str
    ready: bool = False
    _times_replaced: int = 0

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:
        """Do one step."""
        return await run_prepared(self, self.database, doing, step, atomic=atomic)

    @property
    def is_ready(self) -> bool:
        """Whether they are there, in the file that is there now."""
        return self.ready and self._times_replaced == self.database.times_replaced

    async def prepare(self) -> None:
        """Add them if need be."""
        if self.is_ready:
            return
        times = self.database.times_replaced
        if not await self.database.run(self.looking, self.look):
            await self.database.run(self.creating, self.make, atomic=True)
        self.ready, self._times_replaced = True, times
