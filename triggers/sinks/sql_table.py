"""Retrieval failure events as rows of a SQL table, in SQLite or PostgreSQL.

===================  ==========================================================================
id                   the CloudEvents id, the primary key: an event that comes twice is one row
trigger_name         the seven fields of the event, in the order of webMethods,
destination_index    with the destination behind its index; ``time`` is a timestamp with time
delivery_count       zone in PostgreSQL, RFC 3339 text in UTC in SQLite; ``message`` is the
time                 whole message as JSON, null for an unreadable delivery
exception_class
exception_message
message
cause                in the words of ``Cause``
uuid                 the identity of the message, null if it has none
event                the whole CloudEvents 1.0 document as JSON text
===================  ==========================================================================
"""

from collections.abc import Awaitable, Sequence
from typing import Any

from sqlalchemy import Column, DateTime, Index, Integer, MetaData, Table, Text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.schema import CreateIndex, CreateTable

from history.bridge import drive, settled
from history.errors import ConfigurationError, HistoryUnavailableError, MissingExtraError
from history.sql.database.engine import (
    AnyConnection,
    AnyEngine,
    Pooled,
    fetch,
    open_engine,
    refuse_other_drivers,
    split_circuit,
)
from history.sql.database.permissions import Need, refusals_of
from history.sql.database.probe import circuit_for
from history.sql.statements.dialects import Dialect, statement
from history.sql.tables.columns import refuse_foreign
from history.sql.tables.making import ONE_CREATOR
from history.store.inspection import Refusal
from history.store.parking import encodable
from history.support.loops import has_loop
from triggers.events import RetrievalFailureEvent
from triggers.sinks.sink import settle_here, unavailable

#: The default table for events.
DEFAULT_TABLE = "doubtless_events"

#: For PostgreSQL, which would cut a longer name off; an index adds five characters.
LONGEST_NAME = 58

# Whether the table exists. CREATE TABLE IF NOT EXISTS needs a privilege even for an existing table.
EXISTS = statement(
    sqlite="SELECT COUNT(*) FROM sqlite_master WHERE type IN ('table', 'view') AND name = :name",
    postgresql="SELECT CAST(to_regclass(quote_ident(CAST(:name AS TEXT))) IS NOT NULL AS INTEGER)",
)


class SqlTableSink:
    """Stores each event as a row of ``table``, which is created at first use; safe between threads.

    ``where`` is ``sqlite:///file.db``, ``postgresql://user@host/database`` or a SQLAlchemy engine for one of
    them, which its owner closes and which is used in autocommit. Over a URL or a blocking engine a handler
    under asyncio holds the event loop for one round trip; an asyncio engine works only under asyncio. While
    PostgreSQL does not answer, the sink fails immediately instead of delaying every message.

    A table of that name with other columns is refused. Nothing is ever deleted: remove old rows yourself.

    Raises:
        ConfigurationError: the URL, engine or name cannot be used; (MissingExtraError) a driver is missing.
    """

    def __init__(self, where: str | AnyEngine, *, table: str = DEFAULT_TABLE) -> None:
        if not 0 < len(table) <= LONGEST_NAME:
            raise ConfigurationError(
                "table", f"{table!r:.60} is no name of a table", f"use 1 to {LONGEST_NAME} characters"
            )
        self._line = _line_to(where)
        self._table = _table(table)
        self._ready = False
        self._times_replaced: int = 0

    def __call__(self, event: RetrievalFailureEvent) -> Awaitable[None] | None:
        """Store one event.

        Raises:
            SinkUnavailableError: the database does not answer.
            ConfigurationError: it will not take the row, as it is set, or its engine needs an event loop, and
                none runs here.
        """
        if isinstance(self._line.engine, AsyncEngine) and not has_loop():
            raise ConfigurationError(
                "SqlTableSink", "its engine is for asyncio, and no event loop runs here", "give it a URL"
            )
        return settle_here(self._store(event))

    async def _store(self, event: RetrievalFailureEvent) -> None:
        row = _row(event, self._line.dialect)
        times = self._line.times_replaced
        ready, self._ready = self._ready and times == self._times_replaced, False
        try:
            if not ready and not await self._line.run("looking for it", self._exists):
                await self._line.run("creating it", self._create, atomic=True)
            await self._line.run("storing an event", lambda connection: self._insert(connection, row))
        except HistoryUnavailableError as error:
            raise unavailable(f"the table {self._table.name}", error) from None
        except ConfigurationError as error:
            raise _of_a_sink(error) from None
        self._ready, self._times_replaced = True, times

    async def _exists(self, connection: AnyConnection) -> bool:
        await refuse_foreign(
            connection, [self._table], setting="SqlTableSink", remedy="give another name by table="
        )
        ((there,),) = await fetch(connection, EXISTS, name=self._table.name)
        return bool(there)

    async def _create(self, connection: AnyConnection) -> None:
        await fetch(connection, ONE_CREATOR)
        await settled(connection.execute(CreateTable(self._table, if_not_exists=True)))
        for index in self._table.indexes:
            await settled(connection.execute(CreateIndex(index, if_not_exists=True)))

    async def _insert(self, connection: AnyConnection, row: dict[str, Any]) -> None:
        dialect = sqlite if connection.dialect.name == Dialect.SQLITE else postgresql
        insert = dialect.insert(self._table).values(row).on_conflict_do_nothing(index_elements=["id"])
        await settled(connection.execute(insert))

    async def refusals(self) -> Sequence[Refusal]:
        """Return what the role may not do there; on SQLite, only begin a transaction that could write.

        Raises:
            HistoryUnavailableError: the database does not answer.
            ConfigurationError: it is another program's table, or cannot be written.
        """
        name = self._table.name
        if self._line.dialect is Dialect.SQLITE:
            await self._line.run("looking whether it can be written", self._exists, atomic=True)
            return []
        needs = {f"add events to {name}": [Need(name, "INSERT"), Need(name, "SELECT")]}
        await self._line.run("looking for it", self._exists)
        return await self._line.run(
            "asking what its role may do", lambda connection: refusals_of(connection, needs)
        )

    def close(self) -> None:
        """Close the connections that the sink opened itself."""
        drive(self._line.close())


def _line_to(where: str | AnyEngine) -> Pooled:
    try:
        if isinstance(where, str):
            rest, circuit = split_circuit(where)
            engine = open_engine(rest, asyncio=False, options=("table", "circuit"))
            return Pooled(engine, disposable=True, circuit=circuit_for(engine, enabled=circuit))
        refuse_other_drivers(where)
    except MissingExtraError:
        raise
    except ConfigurationError as error:
        raise _of_a_sink(error) from error
    autocommit = where.execution_options(isolation_level="AUTOCOMMIT")
    return Pooled(autocommit, disposable=False, circuit=circuit_for(autocommit, enabled=True))


def _of_a_sink(error: ConfigurationError) -> ConfigurationError:
    return ConfigurationError("SqlTableSink", error.problem, error.remedy)


def _table(name: str) -> Table:
    return Table(
        name,
        MetaData(),
        Column("id", Text, primary_key=True),
        Column("trigger_name", Text, nullable=False),
        Column("destination_index", Integer, nullable=False),
        Column("destination", Text, nullable=False),
        Column("delivery_count", Integer, nullable=False),
        Column("time", DateTime(timezone=True).with_variant(Text(), "sqlite"), nullable=False),
        Column("exception_class", Text),
        Column("exception_message", Text),
        Column("message", Text),
        Column("cause", Text, nullable=False),
        Column("uuid", Text),
        Column("event", Text, nullable=False),
        Index(f"{name}_time", "time"),
    )


def _row(event: RetrievalFailureEvent, dialect: Dialect) -> dict[str, Any]:
    time, message = event.time, event.message
    return {
        "id": event.id,
        "trigger_name": _text(event.trigger_name),
        "destination_index": event.destination_index,
        "destination": _text(event.destination),
        "delivery_count": event.delivery_count,
        "time": time.isoformat(timespec="microseconds") if dialect is Dialect.SQLITE else time,
        "exception_class": _text(event.exception_class),
        "exception_message": _text(event.exception_message),
        "message": None if message is None else message.to_json().decode("ascii"),
        "cause": event.cause.value,
        "uuid": _text(event.uuid),
        "event": event.to_cloudevent_json(),
    }


def _text(value: str | None) -> str | None:
    """Return what a column can hold: databases have no lone surrogates, and PostgreSQL has no NUL."""
    return None if value is None else encodable(value).replace("\0", "\\x00")
