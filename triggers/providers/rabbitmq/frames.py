"""The edge to pika's frames: message properties pass it as bytes, so they cannot end a connection.

pika decodes properties while it reads frames, where an error ends the connection. A timestamp beyond the
year 9999 or an infinite double causes one, and the message comes again on the next connection. So
:class:`Services` packs the properties of each message as one header of bytes before pika sees them.
:mod:`triggers.providers.rabbitmq.properties` reads them, and there an error makes only one delivery
unreadable. We use only public interfaces of pika: a custom event loop that calls ``data_received`` of its
protocols, and ``encode`` of a subclass of ``BasicProperties``. Other users of pika are not affected.
"""

import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, cast

from history.errors import MissingExtraError
from history.message import PropertyValue
from triggers.providers.rabbitmq.properties import encode_properties

try:
    import pika
    from pika import exceptions, frame, spec
    from pika.adapters import select_connection
    from pika.adapters.utils import selector_ioloop_adapter
except ImportError as error:
    raise MissingExtraError("the RabbitMQ provider", extra="rabbitmq", package="pika") from error

#: The driver, as Any: pika has types for only a part.
driver = cast("Any", pika)

#: Separate modules of it, which importing pika need not load.
PARTS = (exceptions, frame, spec, select_connection)

#: The kinds of frames.
_KINDS = frozenset((spec.FRAME_METHOD, spec.FRAME_HEADER, spec.FRAME_BODY, spec.FRAME_HEARTBEAT))

#: A frame's kind, channel and size.
_FRAME = struct.Struct(">BHI")

#: The length of a content header before the properties: class, weight and size of the body.
_CONTENT = 12

_FLAGS_OF_HEADERS: int = driver.BasicProperties.FLAG_HEADERS

_LENGTH = struct.Struct(">I")

#: The name of the one header that holds the properties as they came, and pika's kind for bytes.
_PACKED = ""
_BYTES = b"\x00x"

#: The bytes before them then: flags, the table's length, the header's name and kind, and its length.
_TABLE = struct.Struct(">HI2sI")


class EncodedProperties(spec.BasicProperties):  # type: ignore[misc]  # Any to mypy
    """Properties that are bytes already, in the form that pika needs when it writes a frame."""

    def __init__(self, encoded: bytes) -> None:
        cast("Any", super()).__init__()
        self._encoded = encoded

    def encode(self) -> list[bytes]:
        """Return the bytes."""
        return [self._encoded]


def properties_of(basic: Mapping[str, Any], headers: Mapping[str, PropertyValue]) -> EncodedProperties:
    """Return properties to send.

    Raises:
        ConfigurationError: a name or a short text is too long.
    """
    return EncodedProperties(encode_properties(basic, headers))


class Services(selector_ioloop_adapter.SelectorIOServicesAdapter):  # type: ignore[misc]  # Any to mypy
    """An event loop for one connection, which packs the properties of what it receives."""

    def __init__(self, loop: Any) -> None:
        cast("Any", super()).__init__(loop)
        self._drop_socket: Callable[[], object] = lambda: None
        self._stopped: Exception | None = None

    def connect_socket(self, sock: socket.socket, *arguments: Any, **options: Any) -> Any:
        """Connect as pika does."""
        connecting = cast("Any", super()).connect_socket(sock, *arguments, **options)

        def drop() -> None:
            connecting.cancel()  # before the socket closes: the loop watches it
            sock.close()

        self._drop_socket = drop
        if self._stopped is not None:  # the host's address came too late
            drop()
        return connecting

    def create_streaming_connection(
        self, protocol_factory: Callable[[], Any], *arguments: Any, **options: Any
    ) -> Any:
        """Connect as pika does, with a :class:`Packer` before the protocol."""
        tell: Callable[[Any], None] = options.pop("on_done")

        def packing() -> Any:
            protocol = protocol_factory()
            protocol.data_received = Packer(protocol.data_received).feed
            tell_lost = protocol.connection_lost

            def lost(error: Exception | None) -> None:
                tell_lost(error or self._stopped)  # pika asserts that there is a reason

            protocol.connection_lost = lost
            return protocol

        def connected(result: Any) -> None:
            if isinstance(result, tuple):
                transport, _ = cast("tuple[Any, Any]", result)
                self._drop_socket = transport.abort
            tell(result)

        connecting = cast("Any", super()).create_streaming_connection(
            packing, *arguments, on_done=connected, **options
        )
        self._drop_socket = connecting.cancel
        return connecting

    def stop_connecting(self) -> None:
        """Close the socket, whatever pika waits for on it, and end the loop after that.

        pika cannot close a connection that has not opened, and leaves its socket to the garbage collector.
        """
        self._stopped = ConnectionAbortedError("closed before it has opened")
        self._drop_socket()
        services = cast("Any", self)
        services.add_callback_threadsafe(services.get_native_ioloop().stop)


class Packer:
    """Passes on what the broker sends, and packs the properties of messages."""

    def __init__(self, hand_on: Callable[[bytes], None]) -> None:
        self._hand_on = hand_on
        self._begun = b""  # of a frame that has not arrived in full, and must
        self._passing = 0  # bytes of the present frame that are passed on as they come

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the connection."""
        if self._begun:
            chunk, self._begun = self._begun + chunk, b""
        start = offset = 0
        ready: list[bytes] = []
        while offset < len(chunk):
            if self._passing:
                passed = min(self._passing, len(chunk) - offset)
                self._passing -= passed
                offset += passed
                continue
            if len(chunk) - offset < _FRAME.size:
                break
            frame_type, _, size = _FRAME.unpack_from(chunk, offset)
            if frame_type not in _KINDS:  # such as the broker's answer to another version: pika knows it
                self._passing = len(chunk) - offset
                continue
            whole = _FRAME.size + size + spec.FRAME_END_SIZE
            if frame_type != spec.FRAME_HEADER:
                self._passing = whole
                continue
            if len(chunk) - offset < whole:
                break
            ready += (chunk[start:offset], packed(chunk[offset : offset + whole]))
            start = offset = offset + whole
        ready.append(chunk[start:offset])
        self._begun = chunk[offset:]
        if packed_up := b"".join(ready):
            self._hand_on(packed_up)


def packed(frame: bytes) -> bytes:
    """Return a content header's frame with its properties in one header of bytes."""
    frame_type, channel, size = _FRAME.unpack_from(frame)
    begin = _FRAME.size + _CONTENT
    length = size - _CONTENT
    table = _TABLE.pack(_FLAGS_OF_HEADERS, len(_BYTES) + _LENGTH.size + length, _BYTES, length)
    return (
        _FRAME.pack(frame_type, channel, size + _TABLE.size)
        + frame[_FRAME.size : begin]
        + table
        + frame[begin:]
    )


def unpacked(properties: Any) -> bytes:
    """Return the properties of a message as they came, from pika's properties."""
    return cast("bytes", properties.headers[_PACKED])
