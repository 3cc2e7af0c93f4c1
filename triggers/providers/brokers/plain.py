"""The usual message, made without validation: validation takes most of the time of a delivery.

The usual message has a short identity, short headers and properties that are text, and a body that was read
already. None of these can be invalid. :meth:`~history.message.Message.from_headers` makes the same message of
them, and all other messages.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from history.identity import LONGEST
from history.json_text import JsonText
from history.message import HEADER_FIELDS, UNDEFINED_COUNT, Message, Properties, keep_text, read_header

_EMPTY = Message(body=b"")
_DEFAULTS = vars(_EMPTY)

#: A provider that knows nothing by itself.
_NONE: Mapping[str, Any] = MappingProxyType({})

#: The longest text whose meaning is remembered: messages that come together were often sent together.
_REMEMBERED = 20

_read_text = lru_cache(maxsize=1024)(read_header)

_new, _set = object.__new__, object.__setattr__

_FIELDS = dict(HEADER_FIELDS)
_TEXTS = frozenset({"uuid", "message_id", "correlation_id", "type", "destination", "reply_to", "group_id"})
_FLAGS = frozenset({"persistent", "redelivered"})


def plain(headers: Mapping[str, Any], body: object, own: Mapping[str, Any] = _NONE) -> Message | None:
    """Return the message of these JMS headers, properties and body; None if it needs validation.

    ``own`` has fields that the provider itself knows, so that they are valid. A header replaces such a field.
    """
    fields = {**own}
    properties: dict[str, Any] = {}
    texts: list[str] = []
    for name, value in headers.items():
        field = _FIELDS.get(name)
        if field is None:
            if type(value) is not str:
                return None
            properties[name] = value
            texts += name, value
        elif value is None:
            fields.pop(field, None)
        elif field in _TEXTS:
            if type(value) is not str or not value:
                return None
            fields[field] = value
            texts.append(value)
        elif (read := _read(name, field, value)) is not None:
            fields[field] = read
        else:
            return None
    together = "".join(texts)
    if len(together) > LONGEST or not _is_unicode(together):
        return None
    return _made(body, fields, properties)


def _read(name: str, field: str, value: Any) -> Any:
    """Return the value of a field that is not a text; None if it needs validation."""
    if field == "delivery_count":
        return value if type(value) is int and (value > 0 or value == UNDEFINED_COUNT) else None
    if type(value) is str and len(value) <= _REMEMBERED:
        read = _read_text(name, value)
    else:
        read = value if type(value) is bool else read_header(name, value)
    if type(read) is bool:
        return read if field in _FLAGS else None
    return read if type(read) is datetime and read.tzinfo is not None else None


def _made(body: object, fields: dict[str, Any], properties: dict[str, Any]) -> Message | None:
    if "uuid" in fields:
        properties["uuid"] = fields["uuid"]
    elif "message_id" in fields:
        fields["uuid"] = fields["message_id"]
    if type(body) is bytes or (type(body) is str and _is_unicode(body)):
        fields["body"] = body
    elif isinstance(body, JsonText) and isinstance(body.value, dict | list):
        fields["body"] = body.value
    else:
        return None
    fields["properties"] = Properties(properties) if properties else _EMPTY.properties
    message = _new(Message)
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
