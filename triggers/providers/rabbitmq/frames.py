"""What stands beside a body in AMQP 0-9-1, read and written here, so that no message can end a connection.

pika decodes properties while it reads frames, where an error ends the connection: a timestamp beyond the year
9999 does, or an infinite double, and the message comes again on the next one. Doubles it cuts to integers,
and cannot write. So :class:`Services` packs the properties of each message up before pika sees them, as one
header of bytes, and :func:`read_properties` takes them apart where a message that cannot be read is no more
than that. It uses pika's interface for event loops of one's own; other users of pika are not touched.
"""

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from history.errors import MissingExtraError
from history.message import PropertyValue
from triggers.providers.brokers.reading import UndecodableError

try:
    import pika
    from pika import data, exceptions, frame, spec
    from pika.adapters import select_connection
    from pika.adapters.utils import selector_ioloop_adapter
except ImportError as error:
    raise MissingExtraError("the RabbitMQ provider", extra="rabbitmq", package="pika") from error

#: The driver, as Any: there are types for a part of pika only.
driver = cast("Any", pika)

#: Parts of it that are modules of their own, which importing pika alone need not load.
PARTS = (data, exceptions, frame, spec, select_connection)

_NO_HEADERS = struct.pack(">I", 0)

#: The kinds of frames.
_KINDS = frozenset((spec.FRAME_METHOD, spec.FRAME_HEADER, spec.FRAME_BODY, spec.FRAME_HEARTBEAT))

#: A frame's kind, channel and size.
_FRAME = struct.Struct(">BHI")

#: What stands in a content header before the properties: class, weight and size of the body.
_CONTENT = 12

_FLAGS_OF_HEADERS: int = driver.BasicProperties.FLAG_HEADERS

_LENGTH = struct.Struct(">I")

#: The name of the one header that holds the properties as they came, and pika's kind for bytes.
_PACKED = ""
_BYTES = b"\x00x"

#: What comes before them then: flags, the table's length, the header's name and kind, and its length.
_TABLE = struct.Struct(">HI2sI")


def properties_of(words: Mapping[str, Any], headers: Mapping[str, PropertyValue]) -> Any:
    """Return basic properties whose headers may hold doubles."""
    # Headers that are empty are written as such; then the table is put in their place.
    properties = driver.BasicProperties(**words, headers={})
    encode = properties.encode
    properties.encode = lambda: _with_headers(encode(), headers)
    return properties


def _with_headers(pieces: list[bytes], headers: Mapping[str, PropertyValue]) -> list[bytes]:
    table: list[bytes] = []
    for name, value in headers.items():
        driver.data.encode_short_string(table, name)
        if isinstance(value, float):
            table.append(struct.pack(">cd", b"d", value))
        else:
            driver.data.encode_value(table, value)
    # Only the content type and its encoding, which are no such thing, stand before the empty table.
    place = pieces.index(_NO_HEADERS)
    return [*pieces[:place], struct.pack(">I", sum(map(len, table))), *table, *pieces[place + 1 :]]


class Services(selector_ioloop_adapter.SelectorIOServicesAdapter):  # type: ignore[misc]  # Any to mypy
    """An event loop whose connections pack up the properties of what they receive."""

    def create_streaming_connection(
        self,
        protocol_factory: Callable[[], Any],
        *arguments: Any,
        **words: Any,
    ) -> Any:
        """Connect as pika does, with a :class:`Packer` before the protocol."""

        def packing() -> Any:
            protocol = protocol_factory()
            protocol.data_received = Packer(protocol.data_received).feed
            return protocol

        return cast("Any", super()).create_streaming_connection(packing, *arguments, **words)


class Packer:
    """Hands on what the broker sends, but for the properties of messages, which it packs up."""

    def __init__(self, hand_on: Callable[[bytes], None]) -> None:
        self._hand_on = hand_on
        self._begun = b""  # of a frame that is not here in full, and must be
        self._passing = 0  # bytes of the present frame that are handed on as they come

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the connection."""
        if self._begun:
            chunk, self._begun = self._begun + chunk, b""
        start = place = 0
        ready: list[bytes] = []
        while place < len(chunk):
            if self._passing:
                passed = min(self._passing, len(chunk) - place)
                self._passing -= passed
                place += passed
                continue
            if len(chunk) - place < _FRAME.size:
                break
            kind, _, size = _FRAME.unpack_from(chunk, place)
            if kind not in _KINDS:  # such as the broker's word for another version: pika knows
                self._passing = len(chunk) - place
                continue
            whole = _FRAME.size + size + spec.FRAME_END_SIZE
            if kind != spec.FRAME_HEADER:
                self._passing = whole
                continue
            if len(chunk) - place < whole:
                break
            ready += (chunk[start:place], packed(chunk[place : place + whole]))
            start = place = place + whole
        ready.append(chunk[start:place])
        self._begun = chunk[place:]
        if told := b"".join(ready):
            self._hand_on(told)


def packed(frame: bytes) -> bytes:
    """Return a content header's frame whose properties are one header that holds them as bytes."""
    kind, channel, size = _FRAME.unpack_from(frame)
    begin = _FRAME.size + _CONTENT
    length = size - _CONTENT
    table = _TABLE.pack(_FLAGS_OF_HEADERS, len(_BYTES) + _LENGTH.size + length, _BYTES, length)
    return _FRAME.pack(kind, channel, size + _TABLE.size) + frame[_FRAME.size : begin] + table + frame[begin:]


def unpacked(properties: Any) -> bytes:
    """Return the properties of a message as they came, from those that pika hands over."""
    return cast("bytes", properties.headers[_PACKED])


class Properties:
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
    """The value of a header that is no property of JMS, as it came; ``kind`` is AMQP's letter for it."""

    kind: str
    encoded: bytes


#: The basic properties in their order, and how each is written: a short text, a byte, a time or the headers.
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

#: The kinds of headers that are numbers, as RabbitMQ has them, and how they are written.
_NUMBERS = {
    kind: struct.Struct(form)
    for kind, form in {
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

#: The kinds that say how long they are, and those whose length is known.
_COUNTED = frozenset((b"S", b"x", b"A", b"F"))
_SIZES = {b"D": 5, b"T": 8}


def read_properties(encoded: bytes) -> Properties:
    """Return the properties of a message, as they came.

    Raises:
        UndecodableError: a text is no UTF-8, or a header of no known kind.
        ValueError, struct.error, IndexError: they are cut off or garbled.
    """
    read, place = Properties(), 2
    flags = int.from_bytes(encoded[:2])
    more = flags & 1
    while more:  # words of flags that nobody has given a meaning
        more = encoded[place + 1] & 1
        place += 2
    for name, form in _present(flags):
        if form == "s":
            value, place = _short(encoded, place, name)
            setattr(read, name, value)
        elif form == "F":
            read.headers, place = _table(encoded, place)
        elif form == "B":
            setattr(read, name, encoded[place])
            place += 1
        else:
            read.timestamp = int.from_bytes(_cut(encoded, place, 8))
            place += 8
    return read


# What comes from one sender has mostly the same.
@lru_cache(maxsize=64)
def _present(flags: int) -> tuple[tuple[str, str], ...]:
    return tuple(one for bit, one in enumerate(FIELDS) if flags & 1 << (15 - bit))


def _cut(encoded: bytes, place: int, length: int) -> bytes:
    piece = encoded[place : place + length]
    if len(piece) < length:
        raise UndecodableError("properties", "they are cut off")
    return piece


def _short(encoded: bytes, place: int, name: str) -> tuple[str, int]:
    length = encoded[place]
    try:
        return str(_cut(encoded, place + 1, length), "utf-8"), place + 1 + length
    except UnicodeDecodeError as error:
        raise UndecodableError(name, f"is no UTF-8 ({error})") from error


def _table(encoded: bytes, place: int) -> tuple[dict[str, Any], int]:
    (length,) = _LENGTH.unpack_from(encoded, place)
    place += _LENGTH.size
    end = place + length
    if end > len(encoded):
        raise UndecodableError("headers", "they are cut off")
    headers: dict[str, Any] = {}
    while place < end:
        name, place = _short(encoded, place, "the name of a header")
        headers[name], place = _value(encoded, place, name)
    if place != end:
        raise UndecodableError("headers", "they are cut off")
    return headers, place


def _value(encoded: bytes, place: int, name: str) -> tuple[Any, int]:
    kind = encoded[place : place + 1]
    place += 1
    if (number := _NUMBERS.get(kind)) is not None:
        return number.unpack_from(encoded, place)[0], place + number.size
    if kind in _COUNTED:
        (length,) = _LENGTH.unpack_from(encoded, place)
        place += _LENGTH.size
        value = _cut(encoded, place, length)
        return _text(value) if kind == b"S" else Odd(kind.decode(), value), place + length
    if kind == b"t":
        return encoded[place] != 0, place + 1
    if kind == b"V":
        return None, place
    if kind in _SIZES:
        return Odd(kind.decode(), _cut(encoded, place, _SIZES[kind])), place + _SIZES[kind]
    raise UndecodableError(name, f"a value of the unknown kind {kind!r}")


def _text(value: bytes) -> Any:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        return Odd("S", value)
