"""Statements that ride along: sent with the next one of a transaction, in the same round trip.

BEGIN, a savepoint and a setting have no answer that anybody waits for. On PostgreSQL they go to the server in
one pipeline with a statement that has. The statement itself is SQLAlchemy's, and so is what becomes of an
error; the first that fails is the one that is raised, and the server skips what follows it. Through asyncio,
behind a pooler and on SQLite they are sent one by one, in the same order.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine.interfaces import ExecutionContext
from sqlalchemy.ext.asyncio import AsyncEngine

from history.sql.database.engine import AnyConnection, AnyEngine
from history.sql.statements.dialects import Statement

#: Under this key a connection remembers what rides with its next statement.
_RIDERS = "doubtless_riders"


@dataclass(slots=True)
class Riders:
    """What rides before and after the next statement of one connection's transaction.

    ``began`` says that the server answered something of it; ``last`` is what rode after the last statement,
    as long as nothing was sent since. ``as_one`` says that the next statement has neither parameters nor an
    answer, as what rides has none: all are sent as one text, which costs less than a pipeline.
    """

    dialect: str
    before: list[Statement] = field(default_factory=list[Statement])
    after: list[Statement] = field(default_factory=list[Statement])
    began: bool = False
    last: Sequence[Statement] = ()
    as_one: bool = False

    def board(self, connection: AnyConnection) -> None:
        """Ride on this connection from now on."""
        connection.info[_RIDERS] = self

    def take(self) -> tuple[Sequence[Statement], Sequence[Statement]]:
        """Return what rides now; it does not ride again."""
        before, after = self.before, self.after
        self.before, self.after, self.last = [], [], ()
        return before, after

    def texts(self, statements: Sequence[Statement]) -> list[str]:
        """Return what is sent of them: they have no parameters."""
        return [str(statement[self.dialect]) for statement in statements]


def leave_connection(connection: AnyConnection) -> None:
    """Let nothing ride on this connection any more."""
    if not connection.invalidated:
        connection.info.pop(_RIDERS, None)


def carry(engine: AnyEngine) -> None:
    """Let the statements of an engine carry what rides on their connection."""
    target = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    for name, listener in (("do_execute", _execute), ("do_executemany", _execute_many)):
        if not event.contains(target, name, listener):
            event.listen(target, name, listener)


def _execute(cursor: Any, statement: str, parameters: Any, context: ExecutionContext) -> bool | None:
    """Send a statement with what rides; None leaves it to SQLAlchemy, where nothing does."""
    riders: Riders | None = context.root_connection.info.get(_RIDERS)
    if riders is None:
        return None
    as_one, riders.as_one = riders.as_one, False
    before, after = riders.take()
    if not before and not after:
        return None
    if as_one and _pipelines(context):
        # It is never prepared: only one statement could be.
        cursor.execute("; ".join([*riders.texts(before), statement, *riders.texts(after)]), prepare=False)
    elif _pipelines(context):
        driver = cursor.connection
        with driver.pipeline():
            for text in riders.texts(before):
                driver.execute(text)
            cursor.execute(statement, parameters)
            for text in riders.texts(after):
                driver.execute(text)
    else:
        _one_by_one(context, riders.texts(before))
        cursor.execute(statement, parameters)
        _one_by_one(context, riders.texts(after))
    riders.began, riders.last = True, after
    return True


def _execute_many(_cursor: Any, _statement: str, _parameters: Any, context: ExecutionContext) -> None:
    """Send what rides before a statement that is sent many times, which carries nothing itself."""
    riders: Riders | None = context.root_connection.info.get(_RIDERS)
    if riders is not None:
        before, after = riders.take()
        riders.after = list(after)
        if before:
            _one_by_one(context, riders.texts(before))
            riders.began = True


def _pipelines(context: ExecutionContext) -> bool:
    """Whether a connection takes several statements at once: blocking ones do, with no pooler between."""
    if context.dialect.is_async or context.dialect.name != "postgresql":
        return False
    driver: Any = context.root_connection.connection.driver_connection
    return driver.prepare_threshold is not None and _has_pipelines()


def _has_pipelines() -> bool:
    import psycopg  # noqa: PLC0415  (a driver loads when it is asked for)

    return psycopg.capabilities.has_pipeline()


def _one_by_one(context: ExecutionContext, texts: Sequence[str]) -> None:
    for text in texts:
        with closing(context.root_connection.connection.cursor()) as cursor:
            cursor.execute(text)
