"""Steps of the providers over message brokers before they send a message."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import Message
from triggers.providers.provider import Arrival, Received

L = TypeVar("L")

#: The property of a dead letter that holds the reason.
REASON = "dead-letter-reason"

#: Writes copies to the dead-letter destination, with a reason; when it returns, they are stored safely.
DeadLetter = Callable[[Sequence[Received], str], Awaitable[None]]


def is_later(message: Message, now: datetime) -> bool:
    """Whether the message must not be delivered yet."""
    return message.delivery_time is not None and message.delivery_time > now


def refuse_later(messages: Sequence[Message]) -> None:
    """Refuse messages for later: the broker would deliver them immediately.

    Raises:
        ConfigurationError: one of them has a future delivery time.
    """
    now = datetime.now(UTC)
    if any(is_later(message, now) for message in messages):
        raise no_delays()


def no_delays() -> ConfigurationError:
    """Return the error for a delayed message that the broker would deliver immediately."""
    return ConfigurationError(
        "delivery_time", "this broker cannot delay a message", "send it when it is due, or use Redis Streams"
    )


def named(message: Message) -> Message:
    """Return the message with an id and the time of sending; values that it has stay."""
    missing: dict[str, object] = {}
    if message.message_id is None:
        name = f"ID:{uuid4()}"
        missing |= {"message_id": name, "uuid": message.uuid or name}
    if message.timestamp is None:
        missing["timestamp"] = datetime.now(UTC)
    return message.model_copy(update=missing) if missing else message


def dead_copy(message: Message, reason: str) -> Message:
    """Return the message as a dead letter."""
    return message.model_copy(update={"properties": {**message.properties, REASON: reason}})


def letter_for(
    received: Received,
    reason: str,
    encode: Callable[[Message], L],
    unreadable: Callable[[Mapping[bytes, bytes], str], L],
) -> L:
    """Return a delivery as a dead letter; ``unreadable`` makes it of fields that are not a message."""
    if isinstance(received, Arrival):
        return encode(dead_copy(received.message, reason))
    return unreadable(received.fields, reason)
