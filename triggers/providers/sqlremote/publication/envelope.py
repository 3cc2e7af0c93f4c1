"""A message as an operation of the log: with its uuid, properties and headers, if it has any.

A message with nothing but a body is its body, as an operation that an application appends.
"""

import json
from typing import Any, Final, cast

from history.errors import ConfigurationError
from history.message import Message

#: The one key of an operation that is a message with more than a body.
ENVELOPE: Final = "doubtless:message"

#: The property with the uuid that the sender gave: on a link, a message's own is that of its transaction.
SENT_UUID: Final = "sent_uuid"

#: What a message has that nobody gave anything but a body.
_BARE: Final = Message(body=None).headers()

#: The headers that reach the other end; when to deliver, and until when, is not a link's to decide.
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
    """Return a transaction's operations, and headers and properties where it is a message that was sent."""
    sent = _message_in(operations)
    if sent is None:
        return operations, {"properties": {}}
    properties = {name: value for name, value in sent.properties.items() if name != "uuid"}
    if sent.uuid is not None:
        properties[SENT_UUID] = sent.uuid
    headers = {name: getattr(sent, name) for name in _CARRIED}
    return [sent.body], {**headers, "properties": properties}


def _message_in(operations: list[object]) -> Message | None:
    """Return the message that a transaction consists of; None where it is an application's operations."""
    first = operations[0] if len(operations) == 1 else None
    if not isinstance(first, dict):
        return None
    fields = cast("dict[str, object]", first)
    if set(fields) != {ENVELOPE}:
        return None
    try:
        return Message.from_json(json.dumps(fields[ENVELOPE]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # somebody's own operation under our key: the service may know what it is
