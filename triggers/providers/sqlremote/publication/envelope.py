"""A message as an operation of the log: with its uuid, properties and headers, if it has any.

A message with only a body becomes its body, like an operation that an application appends.
"""

import json
from typing import Any, Final, cast

from history.errors import ConfigurationError
from history.message import Message

#: The only key of an operation that is a message with more than a body.
ENVELOPE: Final = "doubtless:message"

#: The property with the sender's uuid: on a link, a message gets the uuid of its transaction.
SENT_UUID: Final = "sent_uuid"

#: The headers of a message with only a body.
_BARE: Final = Message(body=None).headers()

#: The headers that reach the other end; a link does not decide about delivery and expiration times.
_CARRIED: Final = (
    "persistent",
    "correlation_id",
    "type",
    "reply_to",
    "priority",
    "timestamp",
    "group_id",
    "group_sequence",
)


def operation_of(message: Message) -> object:
    """Return a message as an operation.

    Raises:
        ConfigurationError: its body is bytes.
    """
    if isinstance(message.body, bytes):
        raise ConfigurationError(
            "body",
            "must be text or a JSON value, not bytes: a link carries JSON",
            "send text or a JSON value",
        )
    if message.headers() == _BARE and not message.loses_digits:
        return message.body
    return {ENVELOPE: json.loads(message.to_json())}


def opened(operations: list[object]) -> tuple[list[object], dict[str, Any]]:
    """Return a transaction's operations, and headers and properties if it is a message that was sent."""
    sent = _message_in(operations)
    if sent is None:
        return operations, {"properties": {}}
    properties = {name: value for name, value in sent.properties.items() if name != "uuid"}
    if sent.uuid is not None:
        properties[SENT_UUID] = sent.uuid
    headers = {name: getattr(sent, name) for name in _CARRIED}
    return [sent.body], {**headers, "properties": properties}


def _message_in(operations: list[object]) -> Message | None:
    """Return the message that a transaction consists of; None if it has an application's operations."""
    first = operations[0] if len(operations) == 1 else None
    if not isinstance(first, dict):
        return None
    fields = cast("dict[str, object]", first)
    if set(fields) != {ENVELOPE}:
        return None
    try:
        return Message.from_json(json.dumps(fields[ENVELOPE]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # another program's operation under our key: the service may know it
