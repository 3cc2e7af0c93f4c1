"""The steps to administer SQL-JMS, inside a transaction: find, choose, read, send again, remove."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from history.errors import ConfigurationError, DoubtlessError
from history.message import Message
from history.sql.database.engine import AnyConnection, fetch
from triggers.providers.provider import Arrival, Unreadable
from triggers.providers.sqljms.admin import statements as sql
from triggers.providers.sqljms.codec import COLUMNS
from triggers.providers.sqljms.destinations import FIND, NOBODY, NOBODY_SHOWN, Destination, DestinationKind
from triggers.providers.sqljms.receiving import entries
from triggers.providers.sqljms.receiving.entries import EntrySource, listed
from triggers.providers.sqljms.receiving.odd_rows import read_together
from triggers.providers.sqljms.receiving.receiver import received_of
from triggers.providers.sqljms.sending.outbox import Outbox

_log = logging.getLogger(__name__)

#: The property of a given-up message with its origin.
ORIGIN = "doubtless_destination"

#: The prefix of the queue of dead letters of a destination.
_DEAD_LETTERS = "DLQ."

#: The properties that a message gets when it is given up.
_FAILURE_PROPERTIES = ("doubtless_", "dead-letter-reason")


class HeldError(DoubtlessError):
    """A running consumer is handling a message that should be changed."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}: stop it, or use force")


class NotFoundError(DoubtlessError):
    """Something does not exist."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"there is no {what} {name!r}")


async def find(connection: AnyConnection, text: str) -> tuple[DestinationKind, int]:
    """Return kind and id of a destination; for a plain name, a queue comes before a topic."""
    destination = Destination.parse(text)
    kinds = [destination.kind] if "://" in text else [DestinationKind.QUEUE, DestinationKind.TOPIC]
    for destination_kind in kinds:
        for (number,) in await fetch(connection, FIND[destination_kind], name=destination.name):
            return destination_kind, int(number)
    raise NotFoundError(" or ".join(kinds), destination.name)


async def source_of(connection: AnyConnection, text: str, subscription: str | None) -> EntrySource:
    """Return a queue, or a subscription of a topic; the only subscription need not be named.

    Raises:
        NotFoundError: it does not exist.
        ConfigurationError: the topic has several subscriptions.
    """
    destination_kind, number = await find(connection, text)
    if destination_kind is DestinationKind.QUEUE:
        return EntrySource(destination_kind, number)
    name = Destination.parse(text).name
    rows = await fetch(connection, sql.SUBSCRIPTIONS)
    subscribers = {row.subscription: int(row.id) for row in rows if row.name == name}
    if subscription is None and len(subscribers) == 1:
        return EntrySource(destination_kind, next(iter(subscribers.values())))
    if subscription is None:
        names = ", ".join(name or NOBODY_SHOWN for name in sorted(subscribers)) or "none"
        raise ConfigurationError("subscription", f"{name} is a topic with: {names}", "name one of them")
    if subscription not in subscribers:
        subscription = name_of(subscription)
    if subscription not in subscribers:
        raise NotFoundError(f"subscription of {name}", subscription or NOBODY_SHOWN)
    return EntrySource(destination_kind, subscribers[subscription])


def name_of(subscription: str) -> str:
    """Return the name of a subscription as an operator writes it: ``-`` is the one without a name."""
    return NOBODY if subscription == NOBODY_SHOWN else subscription


async def address_of(connection: AnyConnection, text: str, *, there: bool = False) -> str:
    """Return a sender's name of a destination; an unknown plain name is a new queue.

    A topic has its plain name: as ``topic://`` it would drop messages that nobody is subscribed to.
    """
    if "://" in text:
        destination = Destination.parse(text)
        return text if destination.kind is DestinationKind.QUEUE else destination.name
    try:
        destination_kind, _ = await find(connection, text)
    except NotFoundError:
        if there:
            raise
        destination_kind = DestinationKind.QUEUE
    return f"{destination_kind}://{text}" if destination_kind is DestinationKind.QUEUE else text


async def chosen_of(
    connection: AnyConnection, source: EntrySource, numbers: Sequence[int] | None, *, force: bool
) -> Sequence[int]:
    """Return the chosen messages of a source, in the order of delivery, and keep them from being claimed.

    Raises:
        NotFoundError: one of them does not exist there.
        HeldError: a running consumer is handling some of them.
    """
    if numbers is None:
        rows = await fetch(connection, sql.ALL[source.kind], place=source.number)
    else:
        ids = listed(connection, numbers)
        rows = await fetch(connection, sql.SOME[source.kind], place=source.number, ids=ids)
        missing = set(numbers) - {row.msg_id for row in rows}
        if missing:
            raise NotFoundError("message", ", ".join(map(str, sorted(missing))))
    claimed = [row for row in rows if row.alive]
    if claimed and not force:
        raise HeldError(f"{len(claimed)} messages are being handled by {claimed[0].client_name}")
    return [int(row.msg_id) for row in rows]


async def resend(
    outbox: Outbox,
    connection: AnyConnection,
    source: EntrySource,
    chosen: Sequence[int],
    address: Callable[[int], str],
    *,
    keep: bool = False,
    clean: bool = False,
) -> Sequence[int]:
    """Send the chosen messages of a source to ``address``; remove them unless told to keep them.

    An unreadable message stays where it is, and is not among the returned ones.
    """
    messages = await messages_of(connection, chosen)
    chosen = [number for number in chosen if number in messages]
    for number in chosen:
        message = _cleaned(messages[number]) if clean else messages[number]
        await outbox.send_inside(connection, address(number), [_afresh(message)])
    if not keep:
        await take_out(connection, source, chosen)
    return chosen


async def messages_of(connection: AnyConnection, numbers: Sequence[int]) -> dict[int, Message]:
    """Read messages whole; an unreadable one is logged and left out."""
    messages: dict[int, Message] = {}
    for row in await read_together(connection, numbers, partial(_rows, connection)):
        match received_of(row, None):
            case Arrival(message=message):
                messages[int(row.msg_id)] = message
            case Unreadable(problem=problem):
                _log.warning("message %d is unreadable and was skipped: %s", row.msg_id, problem)
    return messages


async def _rows(connection: AnyConnection, numbers: Sequence[int]) -> Sequence[Any]:
    ids = listed(connection, numbers)
    properties: dict[int, list[list[Any]]] = {}
    for row in await fetch(connection, sql.PROPERTIES, ids=ids):
        properties.setdefault(row.msg_id, []).append([row.name, row.data_type, row.value])
    rows: list[Any] = []
    for row in await fetch(connection, sql.MESSAGES, ids=ids):
        values = dict(zip(COLUMNS, row, strict=True))
        beside = {"properties": properties.get(row.msg_id, []), "delivery_count": 1}
        rows.append(SimpleNamespace(**values, **beside))
    return rows


async def take_out(connection: AnyConnection, source: EntrySource, numbers: Sequence[int]) -> None:
    """Remove messages from a source, and delete those without another reader."""
    ids = listed(connection, numbers)
    rows = await fetch(connection, sql.DELETE[source.kind], place=source.number, ids=ids)
    gone = [int(row.msg_id) for row in rows]
    if gone:
        await entries.count_down(connection, gone)


def _afresh(message: Message) -> Message:
    """Return a message for another send: under its JMSMessageID, and not before its delivery time."""
    return message.model_copy(update={"destination": None, "delivery_count": -1, "redelivered": False})


def _cleaned(message: Message) -> Message:
    kept = {
        name: value for name, value in message.properties.items() if not name.startswith(_FAILURE_PROPERTIES)
    }
    return message.model_copy(update={"properties": kept})


def origin_of(source: str, message: Message) -> str:
    """Return the origin of a given-up message of a source.

    Raises:
        NotFoundError: it is not known.
    """
    origin = message.properties.get(ORIGIN)
    if isinstance(origin, str) and origin:
        return origin
    name = Destination.parse(source).name
    if name.startswith(_DEAD_LETTERS):
        return name.removeprefix(_DEAD_LETTERS)
    raise NotFoundError("origin of message", message.message_id or message.uuid or "?")
