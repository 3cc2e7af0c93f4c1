"""The basic properties of a message in AMQP 0-9-1, as bytes: read and written here, not by pika.

pika cuts doubles to integers, cannot write them, and fails on values that others may send, such as a
timestamp beyond the year 9999. Here an unreadable message affects only one delivery.
"""

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from history.errors import ConfigurationError
from history.message import PropertyValue
from triggers.providers.brokers.codec import SHORT
from triggers.providers.brokers.delivery import UndecodableError

_LENGTH = struct.Struct(">I")

#: The integers that are written in four bytes; all others take eight.
_INTS = range(-(2**31), 2**31)


class RabbitProperties:
    """The basic properties of a message; None is absent."""

    content_type: str | None = None
    content_encoding: str | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

    def __init__(self) -> None:
        self.headers: dict[str, Any] = {}


class Odd(NamedTuple):
    """The value of a header that is not a property of JMS, as it came; ``kind`` is AMQP's letter for it."""

    kind: str
    encoded: bytes


#: The basic properties in their order, each with its form: a short text, a byte, a time or the headers.
FIELDS = (
    ("content_type", "s"),
    ("content_encoding", "s"),
    ("headers", "F"),
    ("delivery_mode", "B"),
    ("priority", "B"),
    ("correlation_id", "s"),
    ("reply_to", "s"),
    ("expiration", "s"),
    ("message_id", "s"),
    ("timestamp", "Q"),
    ("type", "s"),
    ("user_id", "s"),
    ("app_id", "s"),
    ("cluster_id", "s"),
)

#: The kinds of headers that are numbers, as RabbitMQ has them, with their binary form.
_NUMBERS = {
    type_code: struct.Struct(form)
    for type_code, form in {
        b"b": ">b",
        b"B": ">B",
        b"s": ">h",
        b"U": ">h",
        b"u": ">H",
        b"I": ">i",
        b"i": ">I",
        b"l": ">q",
        b"L": ">q",
        b"f": ">f",
        b"d": ">d",
    }.items()
}

#: The kinds that begin with their length, and those of known length.
_COUNTED = frozenset((b"S", b"x", b"A", b"F"))
_SIZES = {b"D": 5, b"T": 8}


def encode_properties(basic: Mapping[str, Any], headers: Mapping[str, PropertyValue]) -> bytes:
    """Return properties as they go over the wire: the basic ones by name, and the headers.

    Raises:
        ConfigurationError: a name or a short text is too long.
    """
    flags, pieces = 0, list[bytes]()
    for bit, (name, form) in enumerate(FIELDS):
        value = headers if form == "F" else basic.get(name)
        if value is not None:
            flags |= 1 << (15 - bit)
            pieces.append(_ENCODERS[form](value))
    return flags.to_bytes(2) + b"".join(pieces)


def _encode_short(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > SHORT:
        raise ConfigurationError(
            "message", f"{text[:40]!r}... is longer than {SHORT} bytes", "put it into the body"
        )
    return len(encoded).to_bytes(1) + encoded


def _encode_table(headers: Mapping[str, PropertyValue]) -> bytes:
    table = b"".join(_encode_short(name) + _encode_value(value) for name, value in headers.items())
    return _LENGTH.pack(len(table)) + table


def _encode_value(value: PropertyValue) -> bytes:
    match value:
        case None:
            return b"V"
        case bool():
            return b"t\x01" if value else b"t\x00"
        case int():
            return struct.pack(">ci", b"I", value) if value in _INTS else struct.pack(">cq", b"l", value)
        case float():
            return struct.pack(">cd", b"d", value)
        case str():
            text = value.encode()
            return b"S" + _LENGTH.pack(len(text)) + text


#: The encoder of each form.
_ENCODERS: Mapping[str, Callable[[Any], bytes]] = {
    "s": _encode_short,
    "B": struct.Struct(">B").pack,
    "Q": struct.Struct(">Q").pack,
    "F": _encode_table,
}


def read_properties(encoded: bytes) -> RabbitProperties:
    """Return the properties of a message, as they came.

    Raises:
        UndecodableError: a text is not UTF-8, or a header has an unknown kind.
        ValueError, struct.error, IndexError: they are cut off or garbled.
    """
    read, offset = RabbitProperties(), 2
    flags = int.from_bytes(encoded[:2])
    more = flags & 1
    while more:  # words of flags without a meaning
        more = encoded[offset + 1] & 1
        offset += 2
    for name, form in _present(flags):
        if form == "s":
            value, offset = _short(encoded, offset, name)
            setattr(read, name, value)
        elif form == "F":
            read.headers, offset = _table(encoded, offset)
        elif form == "B":
            setattr(read, name, encoded[offset])
            offset += 1
        else:
            read.timestamp = int.from_bytes(_cut(encoded, offset, 8))
            offset += 8
    return read


# Messages of one sender mostly have the same properties.
@lru_cache(maxsize=64)
def _present(flags: int) -> tuple[tuple[str, str], ...]:
    return tuple(field for bit, field in enumerate(FIELDS) if flags & 1 << (15 - bit))


def _cut(encoded: bytes, offset: int, length: int) -> bytes:
    piece = encoded[offset : offset + length]
    if len(piece) < length:
        raise UndecodableError("properties", "are cut off")
    return piece


def _short(encoded: bytes, offset: int, name: str) -> tuple[str, int]:
    length = encoded[offset]
    try:
        return str(_cut(encoded, offset + 1, length), "utf-8"), offset + 1 + length
    except UnicodeDecodeError as error:
        raise UndecodableError(name, f"is not UTF-8 ({error})") from error


def _table(encoded: bytes, offset: int) -> tuple[dict[str, Any], int]:
    (length,) = _LENGTH.unpack_from(encoded, offset)
    offset += _LENGTH.size
    end = offset + length
    if end > len(encoded):
        raise UndecodableError("headers", "are cut off")
    headers: dict[str, Any] = {}
    while offset < end:
        name, offset = _short(encoded, offset, "the name of a header")
        headers[name], offset = _value(encoded, offset, name)
    if offset != end:
        raise UndecodableError("headers", "are cut off")
    return headers, offset


def _value(encoded: bytes, offset: int, name: str) -> tuple[Any, int]:
    type_code = encoded[offset : offset + 1]
    offset += 1
    if (number := _NUMBERS.get(type_code)) is not None:
        return number.unpack_from(encoded, offset)[0], offset + number.size
    if type_code in _COUNTED:
        (length,) = _LENGTH.unpack_from(encoded, offset)
        offset += _LENGTH.size
        value = _cut(encoded, offset, length)
        return _text(value) if type_code == b"S" else Odd(type_code.decode(), value), offset + length
    if type_code == b"t":
        return encoded[offset] != 0, offset + 1
    if type_code == b"V":
        return None, offset
    if type_code in _SIZES:
        return Odd(type_code.decode(), _cut(encoded, offset, _SIZES[type_code])), offset + _SIZES[type_code]
    raise UndecodableError(name, f"a value of the unknown type {type_code!r}")


def _text(value: bytes) -> Any:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        return Odd("S", value)
