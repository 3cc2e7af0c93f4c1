"""Statements that ride along: they are sent with the next statement of a transaction, in one round trip.

Nobody waits for an answer to BEGIN, a savepoint or a setting. On PostgreSQL they go to the server in one
pipeline with a statement that has an answer. SQLAlchemy runs that statement and handles its errors. The first
statement that fails raises its error, and the server skips the rest. With asyncio, behind a pooler and on
SQLite they are sent one by one, in the same order.

Statements that end a transaction ride with its COMMIT: completions, removals. Each of them fails if it did
not do everything, and then the server skips the COMMIT.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine.interfaces import ExecutionContext
from sqlalchemy.ext.asyncio import AsyncEngine

from history.sql.database.engine import AnyConnection, AnyEngine
from history.sql.statements.dialects import Statement

#: Under this key a connection remembers the riders of its next statement.
_RIDERS = "doubtless_riders"


#: A statement that ends a transaction, and its parameters.
Ending = tuple[Statement, Mapping[str, object]]


@dataclass(slots=True)
class Riders:
    """The statements that ride before and after the next statement of one connection's transaction.

    ``pipelines`` means that the connection accepts several statements in one pipeline. ``began`` means that
    the server answered a part of the transaction. ``last`` are the riders after the last statement, until
    something else is sent. ``as_one`` means that neither the next statement nor its riders have parameters or
    an answer: all go as one text, which costs less than a pipeline. ``ends`` means that only the end of the
    transaction follows: ``ending``, and its COMMIT.
    """

    dialect: str
    pipelines: bool = False
    before: list[Statement] = field(default_factory=list[Statement])
    after: list[Statement] = field(default_factory=list[Statement])
    began: bool = False
    last: Sequence[Statement] = ()
    as_one: bool = False
    ends: bool = False
    ending: list[Ending] = field(default_factory=list[Ending])
    _failure: Exception | None = None

    def board(self, connection: AnyConnection) -> None:
        """Ride on this connection from now on."""
        connection.info[_RIDERS] = self
        self.pipelines = isinstance(connection, Connection) and takes_pipelines(connection)

    def take(self) -> tuple[Sequence[Statement], Sequence[Statement]]:
        """Return the riders of this statement; they do not ride again."""
        before, after = self.before, self.after
        self.before, self.after, self.last = [], [], ()
        return before, after

    def send_as_one(self, connection: Connection, statements: Sequence[Statement]) -> None:
        """Send statements without parameters or answers, with their riders before them, as one text.

        The driver sends it directly: through SQLAlchemy it takes three times the processor time.

        Raises:
            DBAPIError: as from SQLAlchemy.
        """
        before, _ = self.take()
        driver: Any = connection.connection.driver_connection
        try:
            _send(driver, "; ".join(self.texts([*before, *statements])))
        except Exception as error:  # noqa: BLE001  (drivers raise errors of many kinds)
            # SQLAlchemy handles it, and decides about its connection.
            self._failure = error
            connection.exec_driver_sql("SELECT 1")

    def raise_failure(self) -> None:
        """Raise, only once, an error that a driver raised outside of SQLAlchemy."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def texts(self, statements: Sequence[Statement]) -> list[str]:
        """Return the texts of statements without parameters."""
        return [str(statement[self.dialect]) for statement in statements]


def ride(connection: AnyConnection, statement: Statement, values: Mapping[str, object]) -> bool:
    """Let a statement ride with its transaction's COMMIT; False if the caller must send it now.

    It must fail if it does not do everything.
    """
    riders: Riders | None = connection.info.get(_RIDERS)
    if riders is None or not riders.ends or not riders.pipelines:
        return False
    riders.ending.append((statement, values))
    return True


def leave_connection(connection: AnyConnection) -> None:
    """Stop riding on this connection."""
    if not connection.invalidated:
        connection.info.pop(_RIDERS, None)


def carry(engine: AnyEngine) -> None:
    """Make the statements of an engine carry the riders of their connection."""
    target = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    for name, listener in (("do_execute", _execute), ("do_executemany", _execute_many)):
        if not event.contains(target, name, listener):
            event.listen(target, name, listener)


def _execute(cursor: Any, statement: str, parameters: Any, context: ExecutionContext) -> bool | None:
    """Send a statement with its riders; None leaves it to SQLAlchemy, if it has no riders."""
    riders: Riders | None = context.root_connection.info.get(_RIDERS)
    if riders is None:
        return None
    riders.raise_failure()
    as_one, riders.as_one = riders.as_one, False
    before, after = riders.take()
    ending, riders.ending = riders.ending, []
    if not before and not after and not ending:
        return None
    if as_one and riders.pipelines:
        # It is never prepared, because only a single statement could be.
        cursor.execute("; ".join([*riders.texts(before), statement, *riders.texts(after)]), prepare=False)
    elif riders.pipelines:
        driver = cursor.connection
        carrier = driver.cursor()
        with driver.pipeline():
            for text in riders.texts(before):
                carrier.execute(text)
            for last, values in ending:
                carrier.execute(last[riders.dialect].compiled(context.dialect)[0], values)
            cursor.execute(statement, parameters)
            for text in riders.texts(after):
                carrier.execute(text)
    else:
        _one_by_one(context, riders.texts(before))
        cursor.execute(statement, parameters)
        _one_by_one(context, riders.texts(after))
    riders.began, riders.last = True, after
    return True


def _execute_many(_cursor: Any, _statement: str, _parameters: Any, context: ExecutionContext) -> None:
    """Send the riders before a statement that is sent many times, which carries none itself."""
    riders: Riders | None = context.root_connection.info.get(_RIDERS)
    if riders is not None:
        before, after = riders.take()
        riders.after = list(after)
        if before:
            _one_by_one(context, riders.texts(before))
            riders.began = True


def takes_pipelines(connection: Connection) -> bool:
    """Whether a connection accepts several statements in a pipeline: it is blocking and has no pooler."""
    if connection.dialect.is_async or connection.dialect.name != "postgresql":
        return False
    driver: Any = connection.connection.driver_connection
    return driver.prepare_threshold is not None and _has_pipelines()


@cache
def _has_pipelines() -> bool:
    import psycopg  # noqa: PLC0415  (a driver loads only when needed)

    return psycopg.capabilities.has_pipeline()


def _send(driver: Any, text: str) -> None:
    """Send a text, wait as the driver does, and raise what it would raise."""
    from psycopg import errors, generators, pq  # noqa: PLC0415  (as above)

    driver.pgconn.send_query(text.encode())
    for result in driver.wait(generators.execute(driver.pgconn)):
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise errors.error_from_result(result)


def _one_by_one(context: ExecutionContext, texts: Sequence[str]) -> None:
    for text in texts:
        with closing(context.root_connection.connection.cursor()) as cursor:
            cursor.execute(text)
