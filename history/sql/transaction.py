"""One SQL transaction for a service's effects and its history entry: both are committed, or neither is.

The connection is in autocommit with a textual ``BEGIN``, as everywhere in this store. While the service runs,
``commit`` and ``rollback`` of its connection are refused: they would separate effects and entry.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from history.bridge import settled
from history.entry import Settlement
from history.errors import (
    DoubtlessError,
    EffectsDiscardedError,
    HistoryUnavailableError,
    TransactionBrokenError,
    TransactionConflictError,
)
from history.sql.database.engine import (
    BEGIN,
    COMMIT,
    AnyConnection,
    AnyEngine,
    Pooled,
    driver_of,
    execute,
    give_back,
    in_memory,
)
from history.sql.database.errors import is_conflict, translated, uncommitted, waited_in_vain
from history.sql.database.files import if_settings_worked, note_written, refuse_lost
from history.sql.database.nesting import DO_NOT_WAIT_LONG, Service, enter, is_inside, leave
from history.sql.database.riders import Ending, Riders, leave_connection, ride
from history.sql.database.serving import ServiceMark
from history.sql.database.turns import is_detached
from history.sql.statements.dialects import Dialect, Statement, statement
from history.store import HistoryStore
from history.support.rendering import text_of

SAVEPOINT = statement("SAVEPOINT doubtless_service")
RELEASE = statement("RELEASE SAVEPOINT doubtless_service")
UNDO = statement("ROLLBACK TO SAVEPOINT doubtless_service")

#: The history's own connections avoid sequential scans; a service's queries may be faster with them.
PLAN_FREELY = statement(sqlite="SELECT 1", postgresql="SET LOCAL enable_seqscan = on")
PLAN_AGAIN = statement(sqlite="SELECT 1", postgresql="SET LOCAL enable_seqscan = off")


class JoinedHistory(HistoryStore, Protocol):
    """A history inside of an open transaction."""

    def completion(self, trigger: str, settlements: Sequence[Settlement]) -> Ending | None:
        """Return the statement that completes these at the end of their transaction, or fails.

        None if ``settle`` must do it, such as for a release.
        """
        ...


class ServiceSession(Session):
    """The session of a service; it notes that the service threw away uncommitted work."""

    discarded: str | None = None

    def close(self) -> None:
        """Close, as SQLAlchemy does."""
        self._note("session.close()")
        super().close()

    def reset(self) -> None:
        """Reset, as SQLAlchemy does."""
        self._note("session.reset()")
        super().reset()

    def invalidate(self) -> None:
        """Invalidate, as SQLAlchemy does."""
        self._note("session.invalidate()")
        super().invalidate()

    def _note(self, how: str) -> None:
        if self.in_transaction():
            self.discarded = self.discarded or how


def session_in(connection: AnyConnection) -> Session | AsyncSession:
    """Return a session for a service in the open transaction of a connection."""
    options: dict[str, Any] = {"join_transaction_mode": "create_savepoint", "expire_on_commit": False}
    if isinstance(connection, AsyncConnection):
        return AsyncSession(connection, sync_session_class=ServiceSession, **options)
    return ServiceSession(connection, **options)


def refuse_discarded(session: Session | AsyncSession) -> None:
    """Refuse to keep the work that a service did in a session that it has closed.

    Raises:
        EffectsDiscardedError: the service threw away uncommitted work.
    """
    inner = session.sync_session if isinstance(session, AsyncSession) else session
    if isinstance(inner, ServiceSession) and inner.discarded is not None:
        raise EffectsDiscardedError(inner.discarded)


@dataclass(slots=True)
class SqlTransaction:
    """An open transaction: the part that the service gets, and the history inside it."""

    connection: AnyConnection
    history: JoinedHistory
    replans: bool = False
    engine: AnyEngine | None = None
    riders: Riders | None = None
    #: Its connection had died in the pool: no server got anything of it. Known at its end.
    is_stale: bool = False
    #: A service has run in it.
    has_served: bool = False
    #: The service ended it: what came afterwards may have been committed.
    ended: bool = False
    service: ServiceMark = field(default_factory=ServiceMark)
    _plans_freely: bool = False
    _session: Session | AsyncSession | None = field(default=None)
    _service: Service | None = field(default=None)

    @property
    def session(self) -> Session | AsyncSession:
        """The session of the running service; its commit and rollback only reach a savepoint."""
        if self._session is None:
            self._session = session_in(self.connection)
        return self._session

    def expect(self) -> None:
        """Let the mark of the only service that will run ride with the next statement."""
        if self.riders is not None:
            self.riders.after = self._marks
            self._plans_freely = self.replans

    def resume(self) -> None:
        """Restore the history's way of planning, after a service or if none runs."""
        if self._plans_freely and self.riders is not None:
            self._plans_freely = False
            self.riders.before.append(PLAN_AGAIN)

    @property
    def _marks(self) -> list[Statement]:
        return [SAVEPOINT, PLAN_FREELY] if self.replans else [SAVEPOINT]

    async def mark(self) -> None:
        """Set the mark to which :meth:`undo` goes back, before a service runs.

        Raises:
            HistoryUnavailableError: the server did not answer.
        """
        try:
            await self._mark()
        except DBAPIError as error:
            raise unavailable("marking a service's start", error) from error
        await self.service.put_on(self.connection)
        self.has_served = True
        if self.engine is not None:
            self._service = enter(self.engine)

    async def _mark(self) -> None:
        riders, (first, *others) = self.riders, self._marks
        if riders is None:
            for statement_ in (first, *others):
                await execute(self.connection, statement_)
        elif riders.before or not riders.last:  # else it rode with the claim, and nothing was sent since
            if riders.before and riders.before[-1] is PLAN_AGAIN:  # directly after another service
                riders.before.pop()
                others = []
            if riders.pipelines and isinstance(self.connection, Connection):
                riders.send_as_one(self.connection, [first, *others])
            else:
                riders.after, riders.as_one = others, True
                await execute(self.connection, first)
        self._plans_freely = self.replans

    async def flush(self) -> None:
        """Write the session's last changes, which stay a part of the transaction; raises as :meth:`keep`."""
        if self._session is not None:
            self._refuse_discarded()
            await settled(self._session.flush())

    async def keep(self) -> None:
        """Keep the service's work.

        Raises:
            SQLAlchemyError: it cannot be kept: the session's last changes were refused, or the service left
                its transaction failed or ended.
            EffectsDiscardedError: the service closed its session.
        """
        if self._session is not None:
            self._refuse_discarded()
            await settled(self._session.commit())
            await self._close_session()
        self.leave()
        await self.service.compare(self.connection)
        await self._mend()
        if self.riders is not None and await _goes_on(self.connection):
            self.riders.before.append(RELEASE)
            self.resume()
            return
        await execute(self.connection, RELEASE)
        if self.replans:
            self._plans_freely = False
            await execute(self.connection, PLAN_AGAIN)

    def _refuse_discarded(self) -> None:
        if self._session is not None:
            refuse_discarded(self._session)

    async def undo(self) -> None:
        """Go back to the mark, as if the service had never run.

        Raises:
            HistoryUnavailableError: the connection is gone, or the service ended the transaction: nothing of
                it will be committed.
        """
        try:
            if self._session is not None:
                await self._close_session()
            self.leave()
            await self.service.compare(self.connection)
            await self._mend()
            if self.riders is not None:
                self.riders.take()
            await execute(self.connection, UNDO)
            await execute(self.connection, RELEASE)
            self._plans_freely = False  # the rollback undid this as well
        except SQLAlchemyError as error:
            self.ended = await _is_over(self.connection)
            raise unavailable("undoing a service's changes", error) from error

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> bool:
        """Complete or release what this transaction has claimed; only its end comes afterwards.

        Completions ride with the COMMIT if possible; one that fails prevents the COMMIT. False if something
        could not be done as asked: then nothing may be committed.

        Raises:
            HistoryUnavailableError: the server did not answer.
        """
        self.resume()
        if self.riders is not None:
            self.riders.ends = True
        if not settlements:
            return True
        ending = self.history.completion(trigger, settlements)
        if ending is not None and ride(self.connection, *ending):
            return True
        return all(await self.history.settle(trigger, settlements))

    def leave(self) -> None:
        """Note that no service runs: the connection is ours again."""
        if self._service is not None:
            leave(self._service)
            self._service = None
        # Not through the connection, which the service may have closed, detached or invalidated.
        self.service.serves = False

    def is_worth_another_try(self, error: BaseException) -> bool:
        """Whether an error came from the transaction itself, not from the work in it."""
        return isinstance(error, DBAPIError) and (
            error.connection_invalidated or is_conflict(error) or waited_in_vain(error)
        )

    async def _mend(self) -> None:
        """Make SQLAlchemy forget a refused commit: it believes that the transaction has ended."""
        connection = self.connection
        sync = connection.sync_connection if isinstance(connection, AsyncConnection) else connection
        believed = None if sync is None else sync.get_transaction()
        if believed is not None and not believed.is_active:
            await settled(connection.rollback())  # sends nothing

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await settled(session.close())


def unavailable(doing: str, error: SQLAlchemyError) -> DoubtlessError:
    """Return our error for a driver's."""
    return translated(error, doing) if isinstance(error, DBAPIError) else HistoryUnavailableError(doing)


@asynccontextmanager
async def open_transaction(
    database: Pooled, joined: Callable[[AnyConnection], JoinedHistory], *, lean: bool = False
) -> AsyncGenerator[SqlTransaction]:
    """Begin a transaction; commit it at the end of the block, or roll it back if the block raises.

    ``joined`` returns the view of the history inside the transaction of a connection. On PostgreSQL a
    ``lean`` transaction begins with its first statement; if it is stale, the caller repeats the block.

    Raises:
        HistoryUnavailableError: the server did not answer; at the end it is unknown whether it committed;
            TransactionConflictError if it certainly did not.
        ConfigurationError: with the history's settings it cannot begin.
    """
    riders = Riders(database.dialect) if lean and database.dialect is Dialect.POSTGRESQL else None
    connection = await _begin(database, riders)
    transaction: SqlTransaction | None = None
    try:
        # Only on the history's own engine are the connections configured.
        replans = database.disposable and connection.dialect.name == Dialect.POSTGRESQL
        transaction = SqlTransaction(connection, joined(connection), replans, database.engine, riders)
        yield transaction
        _refuse_lost_file(transaction)
        try:
            await execute(connection, COMMIT)
        except DBAPIError as error:
            raise if_settings_worked(database.engine, uncommitted(error), "committing") from error
        except SQLAlchemyError as error:
            raise unavailable("committing", error) from error
        note_written(database.engine)
        if transaction.service.changed:
            await _discard(connection)
    except Exception as error:
        if transaction is None or not transaction.has_served:
            raise
        # Nobody else may get what the service has left in the session.
        is_lost = _is_lost(error) or await _is_dead(connection)
        await _discard(connection)
        if is_lost or isinstance(error, TransactionConflictError):
            raise
        raise TransactionBrokenError(_root_of(error), ended=transaction.ended) from error
    finally:
        # Before the pool rolls back what an error left open: we do that ourselves.
        if transaction is not None:
            transaction.leave()
            transaction.is_stale = riders is not None and not riders.began and connection.invalidated
        if riders is not None:
            leave_connection(connection)
        await give_back(connection)


async def _is_over(connection: AnyConnection) -> bool:
    """Whether a connection is alive and not in a transaction any more."""
    if connection.closed or connection.invalidated:
        return False
    driver = await driver_of(connection)
    if hasattr(driver, "in_transaction"):  # SQLite
        return not driver.in_transaction
    return driver is not None and driver.info.transaction_status.name == "IDLE"


def _refuse_lost_file(transaction: SqlTransaction) -> None:
    """Commit nothing to a file that is gone: this is not the fault of a message."""
    try:
        refuse_lost(transaction.connection, "committing")
    except HistoryUnavailableError:
        transaction.has_served = False
        raise


async def _is_dead(connection: AnyConnection) -> bool:
    """Whether the driver has noticed a lost connection."""
    if connection.closed:  # by the service
        return False
    return connection.invalidated or bool(getattr(await driver_of(connection), "closed", False))


async def _discard(connection: AnyConnection) -> None:
    if in_memory(connection.engine.url):
        return  # the database would be lost with it
    with suppress(SQLAlchemyError):
        if not connection.closed and not connection.invalidated and not is_detached(connection):
            await settled(connection.invalidate())


def _is_lost(error: BaseException | None) -> bool:
    """Whether the connection to the server broke."""
    while error is not None:
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            return True
        error = error.__cause__
    return False


def _root_of(error: BaseException) -> str:
    """Return the first line of the root error: the database's, if there is one."""
    while error.__cause__ is not None:
        error = error.__cause__
    return text_of(error).partition("\n")[0]


async def _goes_on(connection: AnyConnection) -> bool:
    """Whether the driver knows of an open transaction that has not failed; without a call to the server."""
    driver = await driver_of(connection)
    return driver is not None and driver.info.transaction_status.name == "INTRANS"


async def _begin(database: Pooled, riders: Riders | None = None) -> AnyConnection:
    """Return a connection with its transaction begun; replace it once if it had died in the pool.

    With ``riders``, it begins with the first statement.
    """
    doing = "beginning a transaction"
    inside = is_inside(database.engine, doing, writes=True)
    for last in (False, True):
        connection = await database.connect(doing, inside=inside)
        if riders is not None:
            riders.board(connection)
            riders.before = [BEGIN, DO_NOT_WAIT_LONG] if inside else [BEGIN]
            return connection
        try:
            await execute(connection, BEGIN)
            if inside:
                await execute(connection, DO_NOT_WAIT_LONG)
        except DBAPIError as error:
            await give_back(connection)
            if last or not error.connection_invalidated:
                problem = translated(error, doing)
                raise if_settings_worked(database.engine, problem, doing) from error
        except BaseException:
            await give_back(connection)
            raise
        else:
            return connection
    raise AssertionError("the loop returns or raises")
