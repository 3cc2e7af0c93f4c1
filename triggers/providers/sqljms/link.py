"""The connection of SQL-JMS to its database: the history's line, with a provider's tables and errors."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from history.errors import ConfigurationError, DoubtlessError, HistoryUnavailableError
from history.sql.database.engine import AnyConnection, AnyEngine, Pooled, Step, fetch
from history.sql.database.errors import translated
from history.sql.database.files import times_replaced
from history.sql.database.postgresql import POOLED
from history.sql.statements.dialects import Dialect, statement
from history.sql.tables.history import Prepared
from history.support.forks import at_fork
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.sqljms.tables import LINEAGE, create, identity_of, known_identity, tables_exist

T = TypeVar("T")

#: How many ids of messages are reserved at a time.
BLOCK = 1000

#: The id spaces: of messages, and of everything else.
MESSAGES, OTHERS = "dms_msg", "dms"

# Reserve so many ids, and return the last of them.
RESERVE = statement(
    "UPDATE dms_id_generator SET seed = seed + CAST(:count AS BIGINT)"
    " WHERE id_space_name = :space RETURNING seed"
)


@dataclass(slots=True)
class _Block:
    """Reserved ids that are not handed out yet; a forked child must not hand them out again."""

    next: int = 0
    end: int = 0
    process: int = field(default_factory=os.getpid)

    def take(self, count: int) -> int | None:
        if self.process != os.getpid() or self.end - self.next < count:
            return None
        first, self.next = self.next, self.next + count
        return first


class SqlLink:
    """Steps on a database, each on a connection of its pool; safe between threads."""

    def __init__(self, engine: AnyEngine, *, owned: bool) -> None:
        self.engine = engine
        own = engine if owned else engine.execution_options(isolation_level="AUTOCOMMIT")
        greeting = LINEAGE.greet if engine.dialect.name == Dialect.POSTGRESQL else None
        self._own = Pooled(own, owned, greet=greeting)
        self._line = Prepared(self._own, look=tables_exist, make=create)
        self._identity: tuple[int, int | None] = 0, None
        self._block = _Block()
        self._lock = threading.Lock()
        at_fork(self, SqlLink._renew)

    def _renew(self) -> None:
        """Begin with a free lock, in a forked child; a block knows which ids are its parent's."""
        self._lock = threading.Lock()

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect to use."""
        return self._line.dialect

    @property
    def is_asyncio(self) -> bool:
        """Whether the driver is an asyncio driver."""
        return isinstance(self.engine, AsyncEngine)

    @property
    def times_replaced(self) -> int:
        """How often its file was replaced by another one, checked now; earlier knowledge is void then."""
        return times_replaced(self.engine, look=True)

    async def run(self, doing: str, work: Step[T], *, atomic: bool = False) -> T:
        """Do one step, and repeat it once if it got a connection that had died in the pool.

        Raises:
            ProviderUnavailableError: the server did not answer, or cannot do it at present.
            ConfigurationError: it never will, as it is set.
        """
        with providers_errors():
            return await self._line.run(doing, work, atomic=atomic)

    async def ask(self, doing: str, work: Step[T]) -> T:
        """Do one step on the database as it is, without looking for tables, reading or making them.

        Raises as :meth:`run`.
        """
        with providers_errors():
            return await replace(self._own, greet=None).run(doing, work)

    async def connect(self, doing: str) -> AnyConnection:
        """Return a connection that the pool gives up for good; the caller closes it.

        Raises as :meth:`run`.
        """
        with providers_errors():
            await self._line.prepare()
            connection = await self._own.connect(doing)
        if isinstance(connection, AsyncConnection):
            await connection.run_sync(lambda sync: sync.detach())
        else:
            connection.detach()
        return connection

    async def identity(self) -> int:
        """Return the number of this database; the tables are made if need be."""
        identity, times = self.known_identity, self.times_replaced
        if identity is None:
            identity = await self.run("looking for its tables", identity_of)
            self._identity = times, identity
        return identity or 0

    async def channel(self) -> str | None:
        """Return the prefix of PostgreSQL's channels; a queue's or subscription's id follows."""
        return f"dms_{await self.identity()}_" if self.dialect is Dialect.POSTGRESQL else None

    async def prepared(self, connection: AnyConnection) -> None:
        """Make sure of the tables before something is sent on a caller's connection.

        SQLite lets nobody else write meanwhile, so they are made in that transaction.

        Raises:
            ConfigurationError: the connection sees the tables of another database, with other ids.
        """
        if self.dialect is Dialect.POSTGRESQL:
            own = await self.identity()
            if await known_identity(connection) not in {None, own}:
                raise ConfigurationError(
                    "connection",
                    "is to another database, or another schema, than the provider",
                    "give one to the provider's own database",
                )
        elif not self._line.is_ready:
            await self._line.joined(connection).prepare()

    @property
    def known_identity(self) -> int | None:
        """The number of this database, if it has been asked for."""
        times, number = self._identity
        return number if times == self.times_replaced else None

    async def message_ids(self, connection: AnyConnection, count: int) -> int:
        """Reserve ids for messages that are sent on a connection; return the first.

        SQLite has one writer: there the ids belong to the transaction, and are taken back with it.
        """
        if self.dialect is Dialect.SQLITE:
            return await reserve(connection, MESSAGES, count)
        return await self.block_ids(count)

    async def block_ids(self, count: int) -> int:
        """Reserve ids in blocks, outside all other transactions: so senders do not wait for each other."""
        with self._lock:
            first = self._block.take(count)
        if first is not None:
            return first
        size = max(BLOCK, count)
        start = await self.run("reserving ids", partial(_reserve_block, count=size))
        with self._lock:
            self._block = _Block(start + count, start + size)
        return start

    async def close(self) -> None:
        """Give the connections back."""
        await self._line.close()


async def reserve(connection: AnyConnection, space: str, count: int = 1) -> int:
    """Reserve so many ids; return the first."""
    ((last,),) = await fetch(connection, RESERVE, space=space, count=count)
    return int(last) - count + 1


async def _reserve_block(connection: AnyConnection, *, count: int) -> int:
    """Reserve ids of messages; behind a pooler this may be another server than before."""
    if connection.info.get(POOLED):
        await LINEAGE.greet(connection)
    return await reserve(connection, MESSAGES, count)


def as_providers(
    error: DoubtlessError, *, system: str = "the SQL-JMS database", setting: str = "provider"
) -> DoubtlessError:
    """Return an error of the history's line in the words of a provider."""
    if isinstance(error, HistoryUnavailableError):
        return ProviderUnavailableError(system, error.doing)
    if isinstance(error, ConfigurationError) and error.setting == "history":
        return type(error)(setting, error.problem, error.remedy)
    return error


@contextmanager
def providers_errors(**words: str) -> Generator[None]:
    """Raise errors of the history's line in the words of a provider, see :func:`as_providers`."""
    try:
        yield
    except DoubtlessError as error:
        translated = as_providers(error, **words)
        if translated is error:
            raise  # from itself, its causes would have no end
        raise translated from (error.__cause__ or error)


def translated_for_provider(error: DBAPIError, doing: str) -> DoubtlessError:
    """Return what to raise for an error of the driver."""
    return as_providers(translated(error, doing))
