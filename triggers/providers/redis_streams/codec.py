"""A message as the fields of a stream entry, and back.

==================  =============================================================================
``body``            the body's bytes; the only field that an entry must have
``body-kind``       ``bytes`` (the same as absent), ``text`` or ``json``
a JMS header name   that header, as text: JMSTimestamp and JMSExpiration in ms since 1970
``properties``      a JSON object of the properties that are not text
any other name      a property, as text
==================  =============================================================================

So a producer that knows nothing of doubtless writes ``XADD orders * uuid u1 body '{"id": 5}'``, and
``XRANGE`` shows what doubtless writes. The delivery count is in the pending list, not here.
"""

import json
import struct
from collections.abc import Mapping
from itertools import count
from math import ceil
from time import time_ns
from typing import Any
from uuid import uuid4

from history.errors import ConfigurationError
from history.json_text import JsonText, NotJsonError, read_json
from history.message import HEADER_FIELDS, Message, PropertyValue
from triggers.providers.brokers.codec import Body, make, moment
from triggers.providers.brokers.delivery import UndecodableError
from triggers.providers.provider import NO_LIMITS, Limits
from triggers.providers.redis_streams.settings import later_of

#: Only the pending list knows these; fields of that name are not written and not read.
_COUNTED = {"JMSXDeliveryCount", "JMSRedelivered"}

#: Names that a property cannot use for its field.
_TAKEN = {"body", "body-kind", "properties"}

#: The only field of an entry made from an invalid member of the later messages (``lua/shared/later.lua``).
UNDECODABLE = b"undecodable"

_HEADERS = HEADER_FIELDS.keys() - {"uuid"}

#: Headers that the server knows; its count is never the sender's.
_OWN = {"JMSMessageID", "JMSDestination", "JMSTimestamp", *_COUNTED}

#: The values of absent headers, which need not be stored.
_DEFAULTS: dict[str, PropertyValue] = {"JMSDeliveryMode": 2, "JMSPriority": 4}

#: How many words Lua can pass to one XADD, less some for its other words.
WIDEST = 7000

#: The length of the text that sorts members of one score; ``lua/shared/later.lua`` skips it.
PREFIX = 20

#: Messages of one process with the same due time keep the order in which they were sent.
_sent = count(time_ns())


def message_id(stream: str, entry_id: bytes) -> str:
    """Return the JMSMessageID of an entry if its sender gave none."""
    return f"ID:{stream}:{entry_id.decode('ascii')}"


def encode(message: Message) -> list[bytes]:
    """Return field, value, field, value ... for XADD."""
    body_kind, body = _encode_body(message)
    fields = [b"body", body]
    if body_kind != b"bytes":
        fields += [b"body-kind", body_kind]
    typed: dict[str, PropertyValue] = {}
    for name, value in message.headers().items():
        if name in _COUNTED or (name in _DEFAULTS and value == _DEFAULTS[name]):
            continue
        if name in _HEADERS or (isinstance(value, str) and name not in _TAKEN):
            fields += [_bytes(name), _bytes(str(value))]
        else:
            typed[name] = value
    return [*fields, b"properties", json.dumps(typed).encode("ascii")] if typed else fields


def _encode_body(message: Message) -> tuple[bytes, bytes]:
    if isinstance(message.body, bytes):
        return b"bytes", message.body
    if isinstance(message.body, str):
        return b"text", _bytes(message.body)
    return b"json", message.encoded()


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            "message", f"text in it is not valid Unicode ({error.reason})", "send such a text as bytes"
        ) from error


def decode(
    stream: str,
    entry_id: bytes,
    fields: Mapping[bytes, bytes],
    delivery_count: int,
    limits: Limits = NO_LIMITS,
) -> Message:
    """Return the message of an entry that is delivered for the ``delivery_count``-th time.

    Raises:
        UndecodableError: the fields are not a message.
    """
    if list(fields) == [UNDECODABLE]:
        raise UndecodableError(
            later_of(stream), "had an invalid member", "send later messages with a delivery time"
        )
    encoded = fields.get(b"body")
    if encoded is not None and limits.leaves_encoded(len(encoded), delivery_count):
        body: Body = encoded
    else:
        body = _decode_body(encoded, fields)
    headers = _decode_texts(fields)
    if b"properties" in fields:
        headers |= _decode_properties(fields[b"properties"], headers)
    own = {
        "message_id": message_id(stream, entry_id),
        "destination": stream,
        "timestamp": moment(int(entry_id.partition(b"-")[0])),
        "delivery_count": delivery_count,
        "redelivered": delivery_count > 1,
    }
    return make(headers, body, own)


def _decode_texts(fields: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return the JMS headers, and the properties that have separate fields."""
    texts: dict[str, Any] = {}
    field = b""
    try:
        for field, value in fields.items():
            name = str(field, "utf-8")
            if name not in _TAKEN:
                texts[name] = str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(field) from error
    for name in _COUNTED & texts.keys():
        del texts[name]
    return texts


def _decode_body(body: bytes | None, fields: Mapping[bytes, bytes]) -> Body:
    if body is None:
        raise UndecodableError("body", "is missing", "send the body in a field named body")
    match body_kind := fields.get(b"body-kind", b"bytes"):
        case b"bytes":
            return body
        case b"text":
            try:
                return str(body, "utf-8")
            except UnicodeDecodeError as error:
                raise _not_utf8(b"body") from error
        case b"json":
            return _decode_json("body", body)
        case _:
            raise UndecodableError("body-kind", f"{_shown(body_kind)} is unknown", "send bytes, text or json")


def _not_utf8(field: bytes) -> UndecodableError:
    return UndecodableError(_shown(field), "is not UTF-8", "send names and values as UTF-8")


def _decode_json(field: str, value: bytes) -> JsonText:
    try:
        return read_json(value)
    except NotJsonError as error:
        raise UndecodableError(field, str(error), "send JSON, or another body-kind") from error


def _decode_properties(value: bytes, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties that are not text; headers have their own fields, or come from the server."""
    decoded = _decode_json("properties", value).value
    if not isinstance(decoded, dict):
        raise UndecodableError("properties", "is not a JSON object", 'send {"name": value}')
    for name in decoded.keys() & _HEADERS:
        if name in _OWN or name in texts:
            del decoded[name]
    return decoded


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def named_later(destination: str, message: Message) -> Message:
    """Give the message an id, if it has none: that of its entry is not known yet."""
    if message.message_id is not None:
        return message
    return message.model_copy(update={"message_id": f"ID:{destination}:later-{uuid4().hex}"})


def adding_later(destination: str, message: Message) -> tuple[object, ...]:
    """Return the command that keeps a message until its delivery time; a repeated send keeps it only once.

    It waits in a sorted set, until a receiver moves it into the stream. A member is text to sort by, then the
    fields of the entry, each word after its length as a big-endian 32-bit number. Its score is the due time,
    in milliseconds since 1970 by the sender's clock. ``lua/shared/later.lua`` reads it.

    Raises:
        ConfigurationError: the message has too many properties.
    """
    fields = encode(message)
    if len(fields) > WIDEST:
        raise ConfigurationError(
            "message",
            f"{len(fields) // 2} fields are too many for a delayed message",
            "put them into the body",
        )
    assert message.delivery_time is not None  # noqa: S101  (the caller checked is_later)
    due = ceil(message.delivery_time.timestamp() * 1000)
    packed = b"".join(struct.pack(">I", len(word)) + word for word in fields)
    return "ZADD", later_of(destination), due, b"%0*d" % (PREFIX, next(_sent)) + packed
