"""What pika 1 does wrong with doubles in headers, done right: it cannot write one, and cuts what it reads.

``pika.data.encode_value`` refuses a float, and ``decode_value`` makes 0.5 the integer 0. So the table of
headers is written and read here; other kinds of values are left to pika, whose other users are not touched.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any, cast

from history.errors import MissingExtraError
from history.message import PropertyValue

try:
    import pika
    from pika import compat, data, exceptions, frame, spec
    from pika.adapters import select_connection
except ImportError as error:
    raise MissingExtraError("the RabbitMQ provider", extra="rabbitmq", package="pika") from error

#: The driver, as Any: there are types for a part of pika only.
driver = cast("Any", pika)

#: Parts of it that are modules of their own, which importing pika alone need not load.
PARTS = (compat, data, exceptions, frame, spec, select_connection)

_NO_HEADERS = struct.pack(">I", 0)

#: A frame's header, and what stands in a content header before its properties, in bytes.
_BEFORE_PROPERTIES = driver.spec.FRAME_HEADER_SIZE + 12


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


class Connection(pika.SelectConnection):  # type: ignore[misc]  # Any to mypy
    """A connection that reads doubles in headers."""

    def _read_frame(self) -> Any:
        above, me = cast("Any", super()), cast("Any", self)
        try:
            consumed, frame = above._read_frame()  # noqa: SLF001  (there is no other place to read from)
        except (OverflowError, ValueError):
            # To pika an infinite double is a broken connection, again and again.
            whole: bytes = me._frame_buffer  # noqa: SLF001  (as above)
            me._frame_buffer = _without_doubles(whole)  # noqa: SLF001  (as above)
            consumed, frame = above._read_frame()  # noqa: SLF001  (as above)
            me._frame_buffer = whole  # noqa: SLF001  (as above)
        if isinstance(frame, driver.frame.Header):
            headers: dict[str, Any] = frame.properties.headers or {}
            # Doubles are cut to the same kind as the long integers.
            if any(isinstance(value, driver.compat.long) for value in headers.values()):
                end = consumed - driver.spec.FRAME_END_SIZE
                properties: bytes = me._frame_buffer[_BEFORE_PROPERTIES:end]  # noqa: SLF001  (as above)
                frame.properties.headers = {**headers, **doubles_in(properties)}
        return consumed, frame


def doubles_in(properties: bytes) -> Mapping[str, float]:
    """Return those headers that are doubles, of basic properties as they came."""
    return {name: struct.unpack_from(form, properties, at)[0] for name, form, at in _places(properties)}


def _without_doubles(frame: bytes) -> bytes:
    """Return a content header's frame whose doubles are 0."""
    mended = bytearray(frame)
    for _, form, at in _places(frame[_BEFORE_PROPERTIES:]):
        struct.pack_into(form, mended, _BEFORE_PROPERTIES + at, 0.0)
    return bytes(mended)


def _places(properties: bytes) -> Iterator[tuple[str, str, int]]:
    """Yield name, form and place of the doubles among the headers."""
    flags = struct.unpack_from(">H", properties)[0]
    if not flags & driver.BasicProperties.FLAG_HEADERS:
        return
    offset = 2
    for flag in (driver.BasicProperties.FLAG_CONTENT_TYPE, driver.BasicProperties.FLAG_CONTENT_ENCODING):
        if flags & flag:
            offset += 1 + properties[offset]
    end = offset + 4 + struct.unpack_from(">I", properties, offset)[0]
    offset += 4
    while offset < end:
        name, offset = driver.data.decode_short_string(properties, offset)
        form = {b"d": ">d", b"f": ">f"}.get(properties[offset : offset + 1])
        if form is None:
            _, offset = driver.data.decode_value(properties, offset)
        else:
            yield name, form, offset + 1
            offset += 1 + struct.calcsize(form)
