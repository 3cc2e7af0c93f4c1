"""Waiting for a message: LISTEN on PostgreSQL; on SQLite a condition of this process, and polling."""

import threading

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from history.shell import Condition, Shell, TaskShell, ThreadShell
from history.sql.database.engine import AnyConnection, driver_of, execute, fetch
from history.sql.statements.dialects import statement
from history.support.forks import at_fork

#: The first and the longest pause before a consumer of SQLite looks again, in seconds: messages of other
#: processes notify no condition here.
FIRST_LOOK, LAST_LOOK = 0.01, 0.1


class Conditions:
    """The conditions of this process: one for each database, for all its providers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._conditions: dict[int, Condition] = {}

    def renew(self) -> None:
        """Begin without conditions: in a forked child nobody waits for its parent's."""
        self._lock = threading.Lock()
        self._conditions = {}

    def of(self, identity: int) -> Condition:
        """Return the condition of a database."""
        with self._lock:
            return self._conditions.setdefault(identity, Condition())

    def notify(self, identity: int) -> None:
        """Wake all that wait for something from a database."""
        condition = self.of(identity)
        with condition.changed:
            condition.announce()


#: It only registers waiting consumers: senders and receivers need not know each other.
CONDITIONS = Conditions()
at_fork(CONDITIONS, Conditions.renew)


class Listener:
    """Waits for the condition, each time a little longer until something comes."""

    def __init__(self, condition: Condition, *, asyncio: bool) -> None:
        self._condition = condition
        self._shell: Shell = TaskShell() if asyncio else ThreadShell()
        self._pause = FIRST_LOOK
        self.seen = condition.changes

    def note(self) -> None:
        """Remember the notifications so far: call it before looking for messages."""
        self.seen = self._condition.changes

    def rest(self) -> None:
        """Look again soon: there was something."""
        self._pause = FIRST_LOOK

    async def wait(self, seconds: float) -> None:
        """Wait, at most so many seconds."""
        await self._condition.wait(self._shell, self.seen, min(seconds, self._pause))
        self._pause = min(self._pause * 2, LAST_LOOK)


# Wake the listeners.
NOTIFY = statement(sqlite="SELECT 1", postgresql="SELECT CAST(pg_notify(:channel, '') AS TEXT)")


# The backend that answers.
BACKEND = statement("SELECT pg_backend_pid()")


async def listen(connection: AnyConnection, channel: str) -> None:
    """Listen on a connection to a channel; its name consists of letters and digits.

    Not through a pooler: a notification for a backend would reach its next user, or nobody. Such a consumer
    looks again after ``poll_interval``.
    """
    ((backend,),) = await fetch(connection, BACKEND)
    if backend == (await driver_of(connection)).info.backend_pid:
        await execute(connection, statement(f'LISTEN "{channel}"'))


async def wait_for_notice(connection: AnyConnection, seconds: float) -> None:
    """Wait until a connection gets a notification, at most so many seconds; it is in autocommit.

    Raises:
        DBAPIError: the connection is gone.
    """
    try:
        driver = await driver_of(connection)
        if isinstance(connection, AsyncConnection):
            async for _ in driver.notifies(timeout=seconds, stop_after=1):
                pass
        else:
            for _ in driver.notifies(timeout=seconds, stop_after=1):
                pass
    except driver_error(connection) as error:
        raise DBAPIError(None, None, error, connection_invalidated=True) from error


def driver_error(connection: AnyConnection) -> type[Exception]:
    """Return the base class of the errors of a connection's driver."""
    error_type: type[Exception] = connection.dialect.loaded_dbapi.Error
    return error_type
