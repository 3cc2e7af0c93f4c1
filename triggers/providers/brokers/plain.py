"""The usual message, made without validation: validation takes most of the time of a delivery.

The usual message has a short identity, short headers and properties that are text, and a body that was read
already. None of these can be invalid. :meth:`~history.message.Message.from_headers` makes the same message of
them, and all other messages.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from history.identity import LONGEST
from history.json_text import JsonText
from history.message import HEADER_FIELDS, UNDEFINED_COUNT, Message, Properties, keep_text

_EPOCH = datetime.fromtimestamp(0, UTC)

_EMPTY = Message(body=b"")
_DEFAULTS = vars(_EMPTY)

_set = object.__setattr__

_TEXTS = frozenset({"uuid", "message_id", "correlation_id", "type", "destination", "reply_to", "group_id"})


def plain(headers: Mapping[str, Any], body: object) -> Message | None:
    """Return the message of these JMS headers, properties and body; None if it needs validation."""
    fields: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    size = 0
    for name, value in headers.items():
        if type(value) is str:
            # Together, so that none of them is too long.
            size += len(name) + len(value)
            if size > LONGEST or not (_is_unicode(value) and _is_unicode(name)):
                return None
        field = HEADER_FIELDS.get(name)
        if field is None:
            if type(value) is not str:
                return None
            properties[name] = value
        elif value is not None:
            if (read := _read(field, value)) is None:
                return None
            fields[field] = read
    if "uuid" in fields:
        properties["uuid"] = fields["uuid"]
    elif "message_id" in fields:
        fields["uuid"] = fields["message_id"]
    return _made(body, fields, properties)


def _read(field: str, value: Any) -> Any:
    """Return the value of a field; None if it needs validation."""
    if field in _TEXTS:
        return value if type(value) is str and value else None
    match field:
        case "timestamp" if type(value) is int:
            try:
                return _EPOCH + timedelta(milliseconds=value)
            except OverflowError:
                return None
        case "delivery_count" if type(value) is int and (value > 0 or value == UNDEFINED_COUNT):
            return value
        case "redelivered" if type(value) is bool:
            return value
        case _:
            return None


def _made(body: object, fields: dict[str, Any], properties: dict[str, Any]) -> Message | None:
    if type(body) is bytes or (type(body) is str and _is_unicode(body)):
        fields["body"] = body
    elif isinstance(body, JsonText) and isinstance(body.value, dict | list):
        fields["body"] = body.value
    else:
        return None
    fields["properties"] = Properties(properties) if properties else _EMPTY.properties
    message = Message.__new__(Message)
    # As pydantic copies a model, without what a message does not have: private and extra values.
    _set(message, "__dict__", _DEFAULTS | fields)
    _set(message, "__pydantic_fields_set__", set(fields))
    _set(message, "__pydantic_extra__", None)
    _set(message, "__pydantic_private__", None)
    if isinstance(body, JsonText):
        keep_text(message, body)
    return message


def _is_unicode(text: str) -> bool:
    """Whether it has no halves of surrogate pairs, which validation refuses."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
