"""Sending for a whole provider: it remembers destinations, and uses its own transactions or a caller's."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from history.bridge import drive
from history.message import Message
from history.sql.callers import callers_own
from history.sql.database.engine import AnyConnection, execute, execute_each, fetch
from history.sql.statements.dialects import Dialect
from history.support.paging import pieces_of
from triggers.providers.outgoing import Body, SendOptions, SentMessage, compose, compose_batch
from triggers.providers.sqljms.codec import COLUMNS, encode
from triggers.providers.sqljms.destinations import FIND, Destination, find_or_make, keep_for_nobody
from triggers.providers.sqljms.link import SqlLink
from triggers.providers.sqljms.sending.statements import (
    ADD_ENTRIES,
    ADD_MESSAGES,
    ADD_PROPERTIES,
    PROPERTY,
    READERS,
    SEND,
)
from triggers.providers.sqljms.waking import CONDITIONS

#: How many messages one statement writes at most.
PIECE = 1000


@dataclass(frozen=True, slots=True)
class OutgoingRows:
    """Messages under their ids, as rows, which can be written twice without harm.

    They are written in as few statements as there are kinds of rows. On PostgreSQL one statement writes the
    messages, their entries and their properties, and wakes waiting consumers. If it is sent twice, because
    the answer was lost, it changes nothing the second time.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]
    properties: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, messages: Sequence[Message], first: int, destination: Destination) -> "OutgoingRows":
        """Give messages numbers from ``first`` and encode them.

        Raises:
            ConfigurationError: one of them cannot be stored.
        """
        encoded = [encode(message, first + index, destination.name) for index, message in enumerate(messages)]
        return cls(
            [message.message_id or f"ID:{first + index}" for index, message in enumerate(messages)],
            [row for row, _ in encoded],
            [prop for _, some in encoded for prop in some],
        )


@dataclass(slots=True)
class Posting:
    """Messages of one call on their way to a destination; its id may be known."""

    destination: Destination
    number: int | None
    channel: str | None = None

    async def post(
        self, connection: AnyConnection, outgoing: OutgoingRows, *, in_transaction: bool = True
    ) -> bool:
        """Write messages; return whether anybody can read them, because otherwise nothing is written.

        It makes the destination and a reader, if one is allowed, only inside a transaction.
        """
        for last in (False, True):
            if self.number is not None and await self._write(connection, self.number, outgoing):
                return True
            if last or not in_transaction:
                break
            self.number = await _prepare(connection, self.destination)
        return False

    async def _write(self, connection: AnyConnection, number: int, outgoing: OutgoingRows) -> Sequence[int]:
        """Write the rows; return the readers."""
        if connection.dialect.name == Dialect.SQLITE:
            return await self._write_each(connection, number, outgoing)
        columns: list[Any] = [list(column) for column in zip(*outgoing.rows, strict=True)]
        kept: list[Any] = [list(column) for column in zip(*outgoing.properties, strict=True)] or [[]] * 4
        values = dict(zip(COLUMNS, columns, strict=True)) | dict(zip(PROPERTY, kept, strict=True))
        beside = {**self._place(number), "channel": self.channel}
        return [
            int(row[0]) for row in await fetch(connection, SEND[self.destination.kind], **values, **beside)
        ]

    def _place(self, number: int) -> dict[str, object]:
        return {"destination": number, "expected_name": self.destination.name}

    async def _write_each(
        self, connection: AnyConnection, number: int, outgoing: OutgoingRows
    ) -> Sequence[int]:
        reader_rows = await fetch(connection, READERS[self.destination.kind], **self._place(number))
        readers = [int(reader) for (reader,) in reader_rows]
        if not readers:
            return readers
        beside = {"readers": len(readers), "destination": number}
        messages = [{**dict(zip(COLUMNS, row, strict=True)), **beside} for row in outgoing.rows]
        await execute_each(connection, ADD_MESSAGES, messages)
        if outgoing.properties:
            rows = [dict(zip(PROPERTY, prop, strict=True)) for prop in outgoing.properties]
            await execute_each(connection, ADD_PROPERTIES, rows)
        span = {"first": outgoing.rows[0][0], "last": outgoing.rows[-1][0]}
        await execute(connection, ADD_ENTRIES[self.destination.kind], **span, readers=json.dumps(readers))
        return readers


async def _prepare(connection: AnyConnection, destination: Destination) -> int | None:
    """Make a destination, and a reader to wait for; return its id, if messages may be sent there."""
    if destination.is_temporary:
        rows = await fetch(connection, FIND[destination.kind], name=destination.name)
        return int(rows[0][0]) if rows else None
    number = await find_or_make(connection, destination)
    if destination.retains:
        await keep_for_nobody(connection, number)
    return number


class Outbox:
    """Sends; safe between threads."""

    def __init__(self, link: SqlLink) -> None:
        self._link = link
        self._numbers: dict[Destination, int] = {}

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages in a separate transaction, and return their JMSMessageIDs.

        Raises:
            ConfigurationError: one of them cannot be stored.
            ProviderUnavailableError: it is unknown whether they are sent.
        """
        if not messages:
            return []
        if self._link.dialect is Dialect.SQLITE:
            send = partial(self.send_inside, destination=destination, messages=messages)
            names = await self._link.run("sending", send, atomic=True)
            self.wake()
            return names
        target = Destination.parse(destination)
        batches = [
            OutgoingRows.of(piece, await self._link.block_ids(len(piece)), target)
            for piece in pieces_of(messages, PIECE)
        ]
        await self._send_all(target, batches)
        return [name for outgoing in batches for name in outgoing.names]

    async def _send_all(self, target: Destination, batches: Sequence[OutgoingRows]) -> None:
        """Send in one statement if everything is known; else in a transaction that makes what is missing."""
        channel = await self._link.channel()
        number = self._numbers.get(target)

        async def post(connection: AnyConnection, *, number: int | None, in_transaction: bool) -> bool:
            posting = Posting(target, number, channel)
            for outgoing in batches:
                if not await posting.post(connection, outgoing, in_transaction=in_transaction):
                    return False
            self._know(target, posting)
            return True

        if number is not None and len(batches) == 1:
            at_once = partial(post, number=number, in_transaction=False)
            if await self._link.run("sending", at_once):
                return
        in_steps = partial(post, number=None, in_transaction=True)
        await self._link.run("sending", in_steps, atomic=True)

    async def send_inside(
        self, connection: AnyConnection, destination: str, messages: Sequence[Message]
    ) -> Sequence[str]:
        """Send messages in the transaction that a connection has open, and return their JMSMessageIDs.

        Raises:
            ConfigurationError: one of them cannot be stored.
            sqlalchemy.exc.DBAPIError: the database refused; the owner of the transaction must end it.
        """
        await self._link.prepared(connection)
        target = Destination.parse(destination)
        posting = Posting(target, self._numbers.get(target), await self._link.channel())
        names: list[str] = []
        for piece in pieces_of(messages, PIECE):
            outgoing = OutgoingRows.of(piece, await self._link.message_ids(connection, len(piece)), target)
            await posting.post(connection, outgoing)
            names += outgoing.names
        # The transaction may be rolled back: if the destination is then missing, the next send looks again.
        self._know(target, posting)
        return names

    def _know(self, target: Destination, posting: Posting) -> None:
        if posting.number is not None and not target.is_temporary:
            self._numbers[target] = posting.number

    def wake(self) -> None:
        """Wake the waiting consumers of this process; PostgreSQL wakes by itself."""
        identity = self._link.known_identity
        if self._link.dialect is Dialect.SQLITE and identity is not None:
            CONDITIONS.notify(identity)


class TransactionOutbox:
    """Sends in the transaction that a connection has open: all is committed with it, or nothing is.

    ``send`` and ``send_batch`` are for a blocking connection, ``asend`` and ``asend_batch`` for an asyncio
    one. Errors of the database are SQLAlchemy's errors, as for the connection's other statements.
    """

    def __init__(self, outbox: Outbox, connection: AnyConnection) -> None:
        self._outbox = outbox
        self._connection = connection

    def send(self, destination: str, body: Body | Message, **options: Unpack[SendOptions]) -> SentMessage:
        """Send one message; see :class:`~triggers.providers.outgoing.SendOptions` for its options.

        Raises:
            ConfigurationError: it can never be sent so.
        """
        return drive(self.asend(destination, body, **options))

    async def asend(
        self, destination: str, body: Body | Message, **options: Unpack[SendOptions]
    ) -> SentMessage:
        """Send one message on an asyncio connection; see :meth:`send`."""
        return (await self._send(destination, [compose(destination, body, **options)]))[0]

    def send_batch(
        self, destination: str, bodies: Sequence[Body | Message], **options: Unpack[SendOptions]
    ) -> Sequence[SentMessage]:
        """Send many messages in order, in few statements; options hold for each. Raises as :meth:`send`."""
        return drive(self.asend_batch(destination, bodies, **options))

    async def asend_batch(
        self, destination: str, bodies: Sequence[Body | Message], **options: Unpack[SendOptions]
    ) -> Sequence[SentMessage]:
        """Send many messages on an asyncio connection; see :meth:`send_batch`."""
        return await self._send(destination, compose_batch(destination, bodies, **options))

    async def _send(self, destination: str, messages: Sequence[Message]) -> Sequence[SentMessage]:
        callers_own(self._connection)
        names = await self._outbox.send_inside(self._connection, destination, messages)
        self._outbox.wake()
        return [
            SentMessage(message.model_copy(update={"message_id": name}))
            for message, name in zip(messages, names, strict=True)
        ]
