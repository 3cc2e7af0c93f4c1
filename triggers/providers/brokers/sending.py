"""What the providers over message brokers do with a message before they send it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import Message

#: The property of a dead letter that says why it is one.
REASON = "dead-letter-reason"


def is_later(message: Message, now: datetime) -> bool:
    """Whether the message must not be delivered yet."""
    return message.delivery_time is not None and message.delivery_time > now


def refuse_later(messages: Sequence[Message]) -> None:
    """Refuse what is not to be delivered yet: the broker would deliver it at once.

    Raises:
        ConfigurationError: one of them has its delivery time ahead.
    """
    now = datetime.now(UTC)
    if any(is_later(message, now) for message in messages):
        raise no_delays()


def no_delays() -> ConfigurationError:
    """Return the error of a message for later that the broker would deliver at once."""
    return ConfigurationError(
        "delivery_time", "this broker cannot delay a message", "send it when it is due, or use Redis Streams"
    )


def named(message: Message) -> Message:
    """Return the message with an id and the time of sending, where it has none."""
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
