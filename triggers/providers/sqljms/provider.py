"""SQL-JMS: queues and topics in a SQL database, such as the service's own."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, Self
from uuid import uuid4

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from history.errors import ConfigurationError
from history.message import Message
from history.sql.database.engine import (
    AnyConnection,
    AnyEngine,
    execute,
    in_memory,
    open_engine,
    open_twin,
    refuse_other_drivers,
)
from history.sql.statements.dialects import Dialect, statement
from history.store.inspection import Refusal, Room
from history.store.owners import process_token
from triggers.providers.backlog import Backlog, Place
from triggers.providers.sqljms.destinations import TEMPORARY, Destination
from triggers.providers.sqljms.link import SqlLink, providers_errors
from triggers.providers.sqljms.receiving import clients
from triggers.providers.sqljms.receiving.connection import ConsumerConnection
from triggers.providers.sqljms.receiving.receiver import Name, SqlReceiver
from triggers.providers.sqljms.sending.outbox import Outbox, TransactionOutbox
from triggers.providers.sqljms.settings import SqlJmsSettings

DEFAULTS = SqlJmsSettings()

# Whether the server answers.
PING = statement("SELECT 1")


class SqlJms:
    """Queues and topics in SQLite or PostgreSQL; safe between threads, tables are created at first use.

    ``queue://orders`` is a queue: its consumers share its messages. ``orders`` is a topic: each subscription
    (a trigger, by its name) gets every message, each of its consumers a share. Messages sent before the first
    subscription wait for it. ``topic://orders`` is the same topic with the rules of JMS: without a
    subscription messages are dropped, and with ``?durable=no`` a subscription ends with its last consumer.
    Messages come by priority and then by delivery date. Dead letters of ``orders`` go to ``DLQ.orders``, with
    the reason in the property ``dead-letter-reason``.

    The delivery count is exact: how many times the message was handed to a consumer of the subscription,
    counted before it is handed over. If a consumer is silent for longer than its ``lease``, others get what
    it held, and the count grows by one. A claim is fenced by client and token: a consumer that was presumed
    dead can no longer remove what it held.

    If the document history of an atomic trigger is in the same database, the removal of a message is part of
    the transaction with its effects and its entry. So are messages that the service sends by :meth:`sending`.

    Args:
        engine: a SQLAlchemy engine, blocking or asyncio, for SQLite or for PostgreSQL through psycopg.
        settings: see :class:`~triggers.providers.sqljms.settings.SqlJmsSettings`.
        owned: whether :meth:`close` disposes of the engine.

    Raises:
        ConfigurationError: the engine is for another database or another driver.

    Guarantee: atomic, if history and effects share this database: the message's removal, its history
    entry, the effects and the messages sent are one SQL transaction; else in doubt, or what the trigger's
    effects add to it (fenced).
    """

    def __init__(
        self, engine: AnyEngine, settings: SqlJmsSettings = DEFAULTS, *, owned: bool = False
    ) -> None:
        with providers_errors():
            refuse_other_drivers(engine)
        self._engine = engine
        self._settings = settings
        self._link = SqlLink(engine, owned=owned)
        self._outbox = Outbox(self._link)
        # One for all consumers: after a lost reply, a second open must not take its own name for another's.
        self._token = uuid4().hex
        self._open: set[Name] = set()
        self._opening = threading.Lock()

    @classmethod
    def from_url(cls, url: str, *, asyncio: bool = False) -> Self:
        """Open ``sqlite:///file.db?lease=10`` or ``postgresql://user@host/database``; settings in seconds.

        Raises:
            ConfigurationError: the URL is for something else, or (MissingExtraError) a driver is missing.
        """
        settings, rest = SqlJmsSettings.from_url(url)
        with providers_errors():
            return cls(
                open_engine(rest, asyncio=asyncio, options=SqlJmsSettings.names()), settings, owned=True
            )

    def for_asyncio(self) -> "SqlJms":
        """Return the same database through a separate asyncio engine; itself, if it has one.

        Raises:
            ConfigurationError: the database is in memory, or (MissingExtraError) a driver is missing.
        """
        if isinstance(self._engine, AsyncEngine):
            return self
        if self._link.dialect is Dialect.SQLITE and in_memory(self._engine.url):
            raise ConfigurationError(
                "provider", "a SQLite database in memory has only one client", "use memory:// or a file"
            )
        return SqlJms(open_twin(self._engine, asyncio=True), self._settings, owned=True)

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages in one transaction, and return their JMSMessageIDs."""
        return await self._outbox.send(destination, messages)

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return the backlogs of these places, then of all other queues and subscriptions of the database."""
        from triggers.providers.sqljms.inspection import backlogs_of  # noqa: PLC0415  (no consumer asks)

        return await backlogs_of(self._link, places)

    def sending(
        self, connection: AnyConnection | Session | scoped_session[Any] | AsyncSession
    ) -> TransactionOutbox:
        """Return an object that sends in the open transaction of a connection or a session.

        In an atomic service, pass its ``Connection`` or ``Session`` parameter.

        Raises:
            ConfigurationError: it is not a connection or session, or to another kind of database.
        """
        # Typed Any: a user's value, and not every user runs a type checker.
        given: Any = connection
        if isinstance(given, AsyncSession | async_scoped_session):
            raise ConfigurationError(
                "connection", "an AsyncSession has no connection yet", "give it await session.connection()"
            )
        if isinstance(given, Session | scoped_session):
            given = given.connection()
        if not isinstance(given, Connection | AsyncConnection):
            problem = f"a {type(given).__qualname__} is not a connection of SQLAlchemy"
            raise ConfigurationError("connection", problem, "give a Connection or a Session")
        if given.dialect.name != self._link.dialect:
            raise ConfigurationError(
                "connection",
                f"is a connection to {given.dialect.name}",
                "give one to the provider's own database",
            )
        return TransactionOutbox(self._outbox, given)

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> SqlReceiver:
        """Open a consumer; a missing queue, or topic and subscription, is created."""
        target = Destination.parse(destination)
        if target.is_temporary:
            raise ConfigurationError(
                "destination", f"{destination!r} is temporary and has a consumer already", "use another one"
            )
        return await self._open_as(Name(target, subscription, name, destination))

    async def open_temporary(self, purpose: str) -> tuple[str, SqlReceiver]:
        """Open the only consumer of a new queue, which ends with the consumer, or with its lease."""
        destination = f"queue://{TEMPORARY}{purpose}:{uuid4().hex}"
        name = Name(Destination.parse(destination), "temporary", "owner", destination)
        return destination, await self._open_as(name)

    async def _open_as(self, name: Name) -> SqlReceiver:
        with self._opening:
            if name in self._open:
                raise ConfigurationError(
                    "name",
                    f"{name.client_name!r} is the name of another consumer that is alive",
                    "give each consumer its own name",
                )
            self._open.add(name)
        connection = ConsumerConnection(self._link)
        receiver = SqlReceiver(
            connection,
            self._outbox,
            self._settings,
            name=name,
            # A forked child also has the provider's token, but is another consumer.
            incarnation=f"{self._token}:{process_token()}",
            left=partial(self._open.discard, name),
        )
        try:
            await receiver.open()
        except BaseException:
            self._open.discard(name)
            await connection.close()
            raise
        return receiver

    async def unsubscribe(self, destination: str, subscription: str) -> bool:
        """End a subscription of a topic, with all its unread messages; False if it does not exist.

        Raises:
            ConfigurationError: it has a running consumer, or the destination is a queue.
            ProviderUnavailableError: the server did not answer.
        """
        target = Destination.parse(destination)
        end = partial(clients.end_subscription, destination=target, name=subscription)
        return await self._link.run("unsubscribing", end, atomic=True)

    async def ping(self) -> None:
        """Return when the server answers.

        Raises:
            ProviderUnavailableError: it does not.
        """
        await self._link.run("looking whether it is there", partial(execute, statement=PING))

    async def refusals(self, destination: str, subscription: str | None) -> Sequence[Refusal]:
        """Return which privileges on tables the role lacks; none for SQLite's file, which has no roles.

        Raises:
            ProviderUnavailableError: the server did not answer.
            ConfigurationError: the file cannot be used.
        """
        if self._link.dialect is Dialect.SQLITE:
            await self.ping()
        from triggers.providers.sqljms.inspection import refusals_in  # noqa: PLC0415  (no consumer asks)

        return await refusals_in(self._link, destination, receives=subscription is not None)

    async def room(self) -> Room | None:
        """Return how many connections may be open; see :class:`~history.store.inspection.TellingRoom`."""
        from history.sql.database.room import room_of  # noqa: PLC0415  (as above)

        return await self._link.ask(
            "asking how many connections there may be", partial(room_of, engine=self._engine)
        )

    async def identity(self) -> int:
        """Return the number of this database, which shows that two links lead to the same one.

        Raises:
            ProviderUnavailableError: the server did not answer.
        """
        return await self._link.identity()

    async def close(self) -> None:
        """Give the connections back. Close the receivers before."""
        await self._link.close()
