"""A consumer's connection to the database: on PostgreSQL a separate one, with notifications of messages."""

import os
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from history.errors import HistoryUnavailableError
from history.sql.database.engine import (
    BEGIN,
    COMMIT,
    CONFLICT_ATTEMPTS,
    ROLLBACK,
    AnyConnection,
    Step,
    execute,
    hang_up,
)
from history.sql.database.errors import is_conflict
from history.sql.statements.dialects import Dialect
from history.store import HistoryStore
from history.support.forks import keep
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.sqljms.link import SqlLink, translated_for_provider
from triggers.providers.sqljms.tables import identity_of
from triggers.providers.sqljms.waking import CONDITIONS, NOTIFY, Listener, listen, wait_for_notice

T = TypeVar("T")


@dataclass(slots=True)
class ConsumerConnection:
    """Steps of one consumer, from one thread (or task) at a time except :meth:`run_beside`.

    Its connection keeps prepared statements, and gets a notification when something is sent to its source.
    SQLite has one connection for all.
    """

    link: SqlLink
    channel: str | None = None
    _connection: AnyConnection | None = field(default=None)
    _listener: Listener | None = field(default=None)
    _process: int = field(default_factory=os.getpid)

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect to use."""
        return self.link.dialect

    async def run(self, doing: str, work: Step[T], *, atomic: bool = False) -> T:
        """Do one step; use ``atomic`` if all its statements must succeed or fail together.

        Raises:
            ProviderUnavailableError: the server did not answer; it is unknown what it did.
            ConfigurationError: it never will, as it is set.
        """
        if self.dialect is Dialect.SQLITE:
            return await self.link.run(doing, work, atomic=atomic)
        attempts = 0
        while True:
            attempts += 1
            connection = await self._connected(doing)
            try:
                return await _once(connection, work, atomic=atomic)
            except DBAPIError as error:
                if is_conflict(error) and attempts < CONFLICT_ATTEMPTS:
                    if atomic:
                        await self._roll_back(connection, doing)
                    continue
                await self._hang_up()
                raise translated_for_provider(error, doing) from error
            except BaseException:
                await self._hang_up()
                raise

    async def _roll_back(self, connection: AnyConnection, doing: str) -> None:
        try:
            await execute(connection, ROLLBACK)
        except DBAPIError as error:
            await self._hang_up()
            raise translated_for_provider(error, doing) from error

    async def run_beside(self, doing: str, work: Step[T]) -> T:
        """Do one step on another connection, while this one may be waiting; raises as :meth:`run`."""
        return await self.link.run(doing, work)

    async def attend(self, source: int) -> None:
        """Listen from now on for messages to a queue or subscription."""
        if self.dialect is Dialect.SQLITE:
            condition = CONDITIONS.of(await self.link.identity())
            self._listener = Listener(condition, asyncio=self.link.is_asyncio)
            return
        channel = f"{await self.link.channel()}{source}"
        if channel != self.channel:
            self.channel = channel
            await self._hang_up()
            await self._connected("listening")

    def note(self) -> None:
        """Look for messages after this call: from now on, a send ends a wait."""
        if self._listener is not None:
            self._listener.note()

    def rest(self) -> None:
        """Note that messages were found."""
        if self._listener is not None:
            self._listener.rest()

    async def wait(self, seconds: float) -> None:
        """Wait until something is sent, at most so many seconds; raises as :meth:`run`."""
        if seconds <= 0:
            return
        if self._listener is not None:
            await self._listener.wait(seconds)
            return

        async def wait(connection: AnyConnection) -> None:
            await wait_for_notice(connection, seconds)

        await self.run("waiting for messages", wait)

    async def wake_others(self, source: int) -> None:
        """Tell the other consumers of a source that there are messages."""
        if self._listener is not None:
            CONDITIONS.notify(await self.link.identity())
        else:
            channel = f"{await self.link.channel()}{source}"

            async def tell(connection: AnyConnection) -> None:
                await execute(connection, NOTIFY, channel=channel)

            await self.run("waking others", tell)

    async def is_at_home(self, history: HistoryStore) -> bool | None:
        """Whether a history's transactions see the tables of this database; None if it does not answer."""
        from history.sql.history import SqlHistory  # noqa: PLC0415  (without a SQL history it need not be loaded)

        if not isinstance(history, SqlHistory):
            return False
        own = await self.link.identity()
        try:
            async with await history.transaction() as transaction:
                return await identity_of(transaction.connection) == own
        except HistoryUnavailableError:
            return None
        except DBAPIError as error:
            fault = translated_for_provider(error, "looking whether the history is in this database")
            if isinstance(fault, ProviderUnavailableError):
                return None
            raise fault from error

    async def close(self) -> None:
        """Give the connection back."""
        await self._hang_up()

    async def _connected(self, doing: str) -> AnyConnection:
        if self._process != os.getpid():
            # A forked child must not use its parent's connection.
            keep(self._connection)
            self._connection, self._process = None, os.getpid()
        if self._connection is None:
            connection = await self.link.connect(doing)
            try:
                if self.channel is not None:
                    await listen(connection, self.channel)
            except DBAPIError as error:
                await hang_up(connection)
                raise translated_for_provider(error, doing) from error
            self._connection = connection
        return self._connection

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await hang_up(connection)


async def _once(connection: AnyConnection, work: Step[T], *, atomic: bool) -> T:
    if not atomic:
        return await work(connection)
    await execute(connection, BEGIN)
    answer = await work(connection)
    await execute(connection, COMMIT)
    return answer
