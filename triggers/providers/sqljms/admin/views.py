"""The objects that an operator of SQL-JMS sees; instants are aware, ages and sizes are numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from history.message import Message
from history.sql.database.engine import AnyRow
from history.store import instant
from triggers.providers.sqljms.destinations import DestinationKind


@dataclass(frozen=True, slots=True)
class ClientView:
    """A consumer: whether it is alive, until when it counts as alive, and how many messages it holds."""

    name: str
    id: int
    alive: bool
    held: int
    lease_until: datetime | None


@dataclass(frozen=True, slots=True)
class SourceView:
    """A queue or a subscription: how many messages wait, are being handled, are delayed.

    ``oldest`` is for how long the first due message has been due; None if none is due.
    """

    kind: str
    name: str
    subscription: str | None
    id: int
    messages: int
    held: int
    later: int
    oldest: timedelta | None
    consumers: int | None = None
    durable: bool | None = None
    active: bool | None = None
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic: how many subscriptions it has, and how many messages wait for all of them together."""

    name: str
    id: int
    subscriptions: int
    messages: int
    temporary: bool


@dataclass(frozen=True, slots=True)
class EntryView:
    """A message at a queue or subscription. ``client`` handles it; ``alive`` says whether it is running."""

    id: int
    uuid: str
    type: str | None
    priority: int
    delivery_count: int
    due: datetime
    timestamp: datetime | None
    expiration: datetime | None
    size: int
    client: str | None
    alive: bool


#: The due time of a message with an invalid date: in SQLite it is never due.
NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MessageHolder:
    """A place where a message waits."""

    kind: str
    name: str
    subscription: str | None


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message whole, and where it waits."""

    id: int
    message: Message
    places: Sequence[MessageHolder]


def client_view(row: AnyRow) -> ClientView:
    """Return a client from its row."""
    until = None if row.lease_until is None else instant(row.lease_until)
    return ClientView(row.client_name, row.client_id, bool(row.alive), row.held, until)


def source_view(destination_kind: DestinationKind, row: AnyRow) -> SourceView:
    """Return a queue or subscription from its row."""
    topic = destination_kind is DestinationKind.TOPIC
    return SourceView(
        kind=destination_kind.value,
        name=row.name,
        subscription=row.subscription if topic else None,
        id=row.id,
        messages=row.messages,
        held=row.held,
        later=row.later,
        oldest=None if row.oldest is None else timedelta(milliseconds=row.oldest),
        consumers=None if topic else row.consumers,
        durable=bool(row.durable) if topic else None,
        active=bool(row.active) if topic else None,
        temporary=not topic and bool(row.temp_id),
    )


def topic_view(row: AnyRow) -> TopicView:
    """Return a topic from its row."""
    return TopicView(row.name, row.id, row.subscriptions, row.messages, bool(row.temp_id))


def entry_view(row: AnyRow) -> EntryView:
    """Return an entry from its row; for an unreadable message, the readable part."""
    return EntryView(
        id=row.msg_id,
        uuid=_shown(row.uuid) or _shown(row.message_id) or f"ID:{row.msg_id}",
        type=_shown(row.type),
        priority=_number(row.priority),
        delivery_count=_number(row.delivery_count),
        due=_instant(row.delivery_date) or NEVER,
        timestamp=_instant(row.timestamp),
        expiration=_instant(row.expiration) if row.expiration else None,
        size=_number(row.size),
        client=(row.client_name or str(row.handling_client_id)) if row.claimed else None,
        alive=bool(row.alive),
    )


def _shown(text: object) -> str | None:
    if text is None:
        return None
    return text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else str(text)


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _instant(milliseconds: object) -> datetime | None:
    try:
        return instant(milliseconds) if isinstance(milliseconds, int) else None
    except (OverflowError, ValueError, OSError):
        return None
