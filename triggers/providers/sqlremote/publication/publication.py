"""A publication: an application's commits, in their order, for the links that carry them away.

An operation is appended in the application's transaction. The first one there takes the next offset from a
counter and holds the counter's row until the transaction ends, so offsets grow in the order of commits. (A
sequence of PostgreSQL would number in the order of requests.) Append late in a transaction: other publishing
transactions wait from there to its end. A rollback takes the offset back.
"""

from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json
from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from history.bridge import drive
from history.errors import ConfigurationError
from history.sql.callers import callers_own
from history.sql.database.engine import AnyConnection, execute_each, fetch
from history.sql.links.history import applying
from history.sql.statements.dialects import Dialect, statement
from history.store.watermark import Offset

#: The connections and sessions to which an operation can be appended.
Transaction = Connection | Session | AsyncConnection | AsyncSession

#: Under this key a connection remembers the offset of its open transaction, and the transaction.
_NUMBERED: Final = "doubtless_published"

# The next offset, or again the one of this transaction; locks the counter until it ends. PostgreSQL unlocks
# the counter when a savepoint is rolled back, so another transaction may have that offset then. A setting of
# the transaction is rolled back with the savepoint, so it says whether the offset is still its own.
NUMBER = statement(
    """UPDATE doubtless_link_end
    SET operations = CASE WHEN {mine} THEN operations ELSE 0 END + :count,
        last_offset = last_offset + CASE WHEN {mine} THEN 0 ELSE 1 END
    WHERE id = 1 RETURNING last_offset, operations{noted}""",
    words={
        "mine": {
            Dialect.SQLITE: "last_offset = :mine",
            Dialect.POSTGRESQL: "last_offset = :mine "
            "AND CAST(last_offset AS TEXT) = current_setting('doubtless.offset', TRUE)",
        },
        "noted": {
            Dialect.SQLITE: "",
            Dialect.POSTGRESQL: ", set_config('doubtless.offset', CAST(last_offset AS TEXT), TRUE)",
        },
    },
)

APPEND = statement(
    "INSERT INTO doubtless_link_log (commit_offset, publication, position, origin, committed_at, operation) "
    "VALUES (:offset, :publication, :position, :origin, {now}, :operation)"
)


class Publication:
    """A named part of the transaction log of one database. Safe to share between threads.

    It uses the tables of the links: ``doubtless sqlremote setup`` creates them.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def append(self, transaction: Connection | Session, *operations: Any, to_sender: bool = False) -> Offset:
        """Append operations to the open transaction, and return the offset of its COMMIT.

        An operation is a JSON value, or a pydantic model. All of one transaction reach a subscriber together.

        In a service that applies the work of a link, the operations go to the other links only. With
        ``to_sender`` they go to that link as well. A consolidated database resolves conflicts in this way:
        all remote databases, the sender included, get the result.

        Raises:
            ConfigurationError: there is not an open transaction, or an operation is not JSON.
            SQLAlchemyError: the database refused, or ``setup`` has not made the tables; roll back.
        """
        return drive(self.aappend(transaction, *operations, to_sender=to_sender))

    async def aappend(
        self, transaction: Transaction, *operations: Any, apart: bool = False, to_sender: bool = False
    ) -> Offset:
        """Append as :meth:`append`, over a blocking or an asyncio connection or session.

        ``apart`` makes them a separate transaction for the subscribers: they are committed together with
        what was appended before, and applied separately.
        """
        texts = [_encoded(operation) for operation in operations]
        connection = await _connection(transaction)
        sync = callers_own(connection)
        if apart:
            sync.info.pop(_NUMBERED, None)
        offset, count = await self._number(connection, sync, len(texts))
        rows: list[dict[str, object]] = [
            {
                "offset": offset,
                "publication": self.name,
                "position": count - len(texts) + index,
                "origin": None if to_sender else applying(sync),
                "operation": text,
            }
            for index, text in enumerate(texts)
        ]
        if rows:
            await execute_each(connection, APPEND, rows)
        if apart:
            sync.info.pop(_NUMBERED, None)
        return offset

    async def _number(self, connection: AnyConnection, sync: Connection, count: int) -> tuple[Offset, int]:
        mark, within = sync.info.get(_NUMBERED, (-1, None))
        mine = mark if within is not None and within is sync.get_transaction() else -1
        rows = await fetch(connection, NUMBER, mine=mine, count=count)
        if not rows:
            raise ConfigurationError(
                "publication", "its log does not exist yet", "create it with: doubtless sqlremote setup"
            )
        offset, total, *_ = rows[0]
        if mine != offset:
            sync.info[_NUMBERED] = (offset, sync.get_transaction())
            _watch(sync)
        return Offset(offset), total


def _encoded(operation: Any) -> str:
    try:
        return to_json(operation).decode()
    except (PydanticSerializationError, ValueError) as error:
        raise ConfigurationError(
            "operation",
            f"{type(operation).__qualname__} is not a JSON value",
            "publish a JSON value or a model",
        ) from error


async def _connection(transaction: Transaction) -> AnyConnection:
    if isinstance(transaction, Session):
        return transaction.connection()
    if isinstance(transaction, AsyncSession):
        return await transaction.connection()
    return transaction


def _watch(connection: Connection) -> None:
    """Forget the offset when a textual statement ends the transaction: SQLAlchemy does not notice that."""
    if not event.contains(connection, "before_cursor_execute", _forget_at_end):
        event.listen(connection, "before_cursor_execute", _forget_at_end)


def _forget_at_end(
    connection: Connection,
    _cursor: object,
    text: str,
    _values: object,
    _context: object,
    _many: bool,  # noqa: FBT001
) -> None:
    word = text.lstrip()[:8].upper()
    ends = word.startswith(("COMMIT", "END", "BEGIN", "ABORT"))
    if ends or (word == "ROLLBACK" and " TO " not in text.upper()):
        connection.info.pop(_NUMBERED, None)
