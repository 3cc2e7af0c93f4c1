"""Frames of AMQP 0-9-1 on their way to pika, and the properties of messages."""

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pika.adapters import select_connection

from history.errors import ConfigurationError
from history.message import PropertyValue
from tests.hostile import over_rabbitmq
from triggers.providers.brokers.delivery import UndecodableError
from triggers.providers.rabbitmq import codec as rabbitmq_codec
from triggers.providers.rabbitmq.frames import Packer, Services, driver, packed, properties_of, unpacked
from triggers.providers.rabbitmq.properties import Odd, read_properties

END = b"\xce"

#: A method, a heartbeat, and a body that has the length of a header's frame and begins like one.
METHOD = driver.frame.Method(
    1, driver.spec.Basic.Deliver("tag", 7, exchange="", routing_key="orders")
).marshal()
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00" + END
BODY = b"\x03\x00\x01\x00\x00\x00\x07" + b"\x02\x00\x01\x00\x00\x00\x00" + END

#: Milliseconds where seconds belong: a year beyond 9999.
LATE = struct.pack(">Q", 1_700_000_000_000)


def header_of(properties: bytes, size: int = 1) -> bytes:
    content = struct.pack(">HHQ", 60, 0, size) + properties
    return b"\x02\x00\x01" + struct.pack(">I", len(content)) + content + END


@given(cuts=some.lists(some.integers(1, 60), max_size=40))
def test_frames_pass_however_they_are_cut_and_properties_are_packed_up(cuts: list[int]) -> None:
    properties = over_rabbitmq.with_headers(over_rabbitmq.header("at", b"T", LATE), message_id=b"1")
    stream = METHOD + header_of(properties) + BODY + HEARTBEAT + METHOD + header_of(b"\x00\x00", 0)
    handed_on: list[bytes] = []
    packer = Packer(handed_on.append)

    for cut in [*cuts, len(stream)]:
        if piece := stream[:cut]:
            packer.feed(piece)
        stream = stream[cut:]

    kinds, whole = list[Any](), b"".join(handed_on)
    while whole:
        consumed, frame = driver.frame.decode_frame(whole)
        kinds.append(frame)
        whole = whole[consumed:]
    assert [type(frame).__name__ for frame in kinds] == [
        *("Method", "Header", "Body", "Heartbeat", "Method", "Header")
    ]
    assert [unpacked(kinds[place].properties) for place in (1, 5)] == [properties, b"\x00\x00"]
    assert (kinds[1].body_size, kinds[2].fragment) == (1, BODY[7:-1])


def test_what_is_no_frame_is_left_to_pika() -> None:
    handed_on: list[bytes] = []
    Packer(handed_on.append).feed(b"AMQP\x00\x00\x09\x01")

    assert handed_on == [b"AMQP\x00\x00\x09\x01"]


@given(properties=some.binary(max_size=60))
def test_no_properties_are_too_odd_for_pika_once_they_are_packed_up(properties: bytes) -> None:
    _, frame = driver.frame.decode_frame(packed(header_of(properties)))

    assert unpacked(frame.properties) == properties


@given(flags=some.integers(0, 2**16 - 1), rest=some.binary(max_size=60))
def test_any_bytes_are_properties_or_refused(flags: int, rest: bytes) -> None:
    with suppress(UndecodableError, IndexError, struct.error):
        read_properties(struct.pack(">H", flags) + rest)


def test_values_that_jms_does_not_know_are_read_as_they_are_without_their_insides() -> None:
    deep = b"A\x00\x00\x00\x05" * 50_000
    table = b"".join(
        over_rabbitmq.header(name, kind, value)
        for name, kind, value in [
            ("late", b"T", LATE),
            ("array", b"A", struct.pack(">I", len(deep)) + deep),
            ("text", b"S", b"\x00\x00\x00\x01\xff"),
            ("decimal", b"D", b"\x02\x00\x00\x00\x07"),
            ("half", b"d", struct.pack(">d", 0.5)),
            ("endless", b"d", struct.pack(">d", float("inf"))),
            ("nothing", b"V", b""),
            ("yes", b"t", b"\x01"),
        ]
    )

    read = read_properties(over_rabbitmq.with_headers(table, message_id=b"1")).headers

    assert (read["late"], read["text"]) == (Odd("T", LATE), Odd("S", b"\xff"))
    assert (read["array"].kind, read["decimal"].kind) == ("A", "D")
    assert (read["half"], read["endless"], read["nothing"], read["yes"]) == (0.5, float("inf"), None, True)


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        (over_rabbitmq.with_headers(over_rabbitmq.header("at", b"T", LATE)), "at: a value of type timestamp"),
        (
            over_rabbitmq.with_headers(over_rabbitmq.header("x-delivery-count", b"T", LATE)),
            "x-delivery-count",
        ),
        (over_rabbitmq.with_headers(over_rabbitmq.header("a", b"?", b"")), "a: a value of the unknown type"),
        (over_rabbitmq.with_headers(b"", content_type=b"text/\xff"), "content_type: is not UTF-8"),
        (over_rabbitmq.with_headers(b"", expiration=b"9" * 200), "expiration"),
        (over_rabbitmq.with_headers(b"\x01\xffV"), "the name of a header: is not UTF-8"),
        (over_rabbitmq.with_headers(over_rabbitmq.header("a", b"S", b"\x00\x00\x00\x09x")), "cut off"),
        (over_rabbitmq.with_headers(b"\x05ab"), "cut off"),
    ],
)
def test_properties_that_are_no_messages_are_named(properties: bytes, named: str) -> None:
    origin = rabbitmq_codec.Origin(destination="orders", quorum=True)

    with pytest.raises(UndecodableError, match=named):
        rabbitmq_codec.decode(properties, b"x", redelivered=False, origin=origin)

    fields = rabbitmq_codec.raw_fields(properties, b"x")
    assert (fields[b"properties"], fields[b"body"]) == (properties, b"x")


def test_what_is_written_is_what_pika_writes_and_doubles_besides() -> None:
    basic = {"content_type": "text/plain", "delivery_mode": 2, "priority": 4, "timestamp": 1_700_000_000}
    headers: dict[str, PropertyValue] = {
        "text": "ä",
        "yes": True,
        "small": -7,
        "large": 2**40,
        "nothing": None,
    }

    encoded = properties_of({**basic, "message_id": "ID:1"}, headers).encode()
    with_double = read_properties(b"".join(properties_of({}, {"half": 0.5}).encode()))

    of_pika = driver.BasicProperties(**basic, message_id="ID:1", headers=headers).encode()
    assert b"".join(encoded) == b"".join(of_pika)
    assert with_double.headers == {"half": 0.5}


def test_a_name_that_is_too_long_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigurationError, match=r"longer than 255 bytes; put it into the body"):
        properties_of({}, {"x" * 256: 1})


def test_a_time_in_milliseconds_where_seconds_belong_is_none() -> None:
    origin = rabbitmq_codec.Origin(destination="orders", quorum=True)

    message = rabbitmq_codec.decode(b"\x00\x40" + LATE, b"x", redelivered=False, origin=origin)

    assert (message.timestamp, message.body) == (None, b"x")


@pytest.fixture
def full() -> Iterator[socket.socket]:
    """A server with a full queue of connections: it accepts no more."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as waiting:
        for _ in range(4):
            other = waiting.enter_context(socket.socket())
            other.settimeout(0)
            other.connect_ex(server.getsockname())
        yield server


@pytest.mark.parametrize("poller", ["epoll", "poll", "select"])
@pytest.mark.parametrize("turns", [("connect", "stop"), ("connect stop",), ("stop connect",)])
def test_a_loop_that_waits_for_a_server_ends_without_another_step(
    full: socket.socket, monkeypatch: pytest.MonkeyPatch, poller: str, turns: Sequence[str]
) -> None:
    monkeypatch.setattr(select_connection, "SELECT_TYPE", poller)
    loop: Any = cast("Any", select_connection).IOLoop()
    services: Any = Services(loop)
    line, steps = socket.socket(), list[object]()
    line.settimeout(0)

    def connect() -> None:
        services.connect_socket(line, full.getsockname(), on_done=steps.append)

    actions, coming = {"connect": connect, "stop": services.stop_connecting}, iter(turns)

    def turn() -> None:
        for action in next(coming, "").split():
            actions[action]()
        loop.add_callback_threadsafe(turn)

    turn()
    loop.start()
    loop.close()

    assert (line.fileno(), steps) == (-1, [])
