"""The way in: messages and their entries, in as few statements as there are kinds of rows.

On PostgreSQL one statement writes the messages, their entries and their properties, and wakes waiting
consumers. If it is sent twice, because the answer was lost, it changes nothing the second time.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from history.message import Message
from history.sql.database.engine import AnyConnection, execute, execute_each, fetch
from history.sql.statements.dialects import Dialect
from triggers.providers.sqljms.codec import COLUMNS, encode
from triggers.providers.sqljms.destinations import (
    FIND,
    Destination,
    find_or_make,
    keep_for_nobody,
)
from triggers.providers.sqljms.sending.statements import (
    ADD_ENTRIES,
    ADD_MESSAGES,
    ADD_PROPERTIES,
    PROPERTY,
    READERS,
    SEND,
)

#: How many messages one statement writes at most.
PIECE = 1000


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Messages under their ids, as rows, which can be written twice without harm."""

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]
    properties: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, messages: Sequence[Message], first: int, destination: Destination) -> "Outgoing":
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
    readers: set[int] = field(default_factory=set[int])

    async def post(
        self, connection: AnyConnection, outgoing: Outgoing, *, in_transaction: bool = True
    ) -> bool:
        """Write messages; return whether anybody can read them, because otherwise nothing is written.

        It makes the destination and a reader, if one is allowed, only inside a transaction.
        """
        for last in (False, True):
            if self.number is not None:
                readers = await self._write(connection, self.number, outgoing)
                self.readers.update(readers)
                if readers:
                    return True
            if last or not in_transaction:
                break
            self.number = await _prepare(connection, self.destination)
        return False

    async def _write(self, connection: AnyConnection, number: int, outgoing: Outgoing) -> Sequence[int]:
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

    async def _write_each(self, connection: AnyConnection, number: int, outgoing: Outgoing) -> Sequence[int]:
        found = await fetch(connection, READERS[self.destination.kind], **self._place(number))
        readers = [int(reader) for (reader,) in found]
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


def pieces(messages: Sequence[Message]) -> Sequence[Sequence[Message]]:
    """Split messages into pieces for one statement each."""
    return [messages[start : start + PIECE] for start in range(0, len(messages), PIECE)]


async def _prepare(connection: AnyConnection, destination: Destination) -> int | None:
    """Make a destination, and a reader to wait for; return its id, if messages may be sent there."""
    if destination.is_temporary:
        found = await fetch(connection, FIND[destination.kind], name=destination.name)
        return int(found[0][0]) if found else None
    number = await find_or_make(connection, destination)
    if destination.retains:
        await keep_for_nobody(connection, number)
    return number
