"""Hostile deliveries of AMQP 0-9-1: properties as bytes, of any kind of value that RabbitMQ 3 takes.

RabbitMQ 3 refuses delivery modes except 1 and 2, doubles that are NaN or infinite, a ``CC`` that is not an
array of texts, and properties that are cut off.
"""

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.hostile.content import CHARSETS, EDGES, NAMES, body, dice_of, short
from tests.integration.helpers.rabbitmq_queues import raw
from triggers.providers.rabbitmq.frames import driver


@dataclass(frozen=True, slots=True)
class Hostile:
    """One delivery: its properties as they go over the wire, and its body."""

    properties: bytes
    body: bytes


def with_headers(table: bytes, **texts: bytes) -> bytes:
    """Return properties: a table of headers, and short texts by their names."""
    return _properties(
        {"headers": struct.pack(">I", len(table)) + table} | {n: _short(t) for n, t in texts.items()}
    )


def header(name: str, kind: bytes, value: bytes) -> bytes:
    return _short(name.encode()) + kind + value


def deliveries(count: int, seed: int) -> Sequence[Hostile]:
    """Return ``count`` deliveries; if a delivery has a readable JMSMessageID, this ID is unique."""
    dice = dice_of(seed)
    return [_hostile(dice, number) for number in range(count)]


def send(server: RabbitmqServer, queue: str, hostile: Sequence[Hostile]) -> None:
    """Send them; the broker refuses some, and hangs up."""
    channel: Any = None
    for one in hostile:
        if channel is None or channel.is_closed:
            channel = raw(server).channel()
            channel.confirm_delivery()
        try:
            channel.basic_publish("", queue, one.body, _encoded(one.properties))
        except driver.exceptions.AMQPError:
            if channel.connection.is_open:
                channel.connection.close()
    if channel is not None and channel.is_open:
        channel.connection.close()


def _encoded(properties: bytes) -> Any:
    made = driver.BasicProperties()
    made.encode = lambda: [properties]
    return made


_NAMES = [name for name in NAMES if name != "CC"]

#: The names of the basic properties and their bits.
_BITS = {
    name: 1 << (15 - place)
    for place, name in enumerate(
        (
            *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id"),
            *("reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
        )
    )
}


def _hostile(dice: random.Random, number: int) -> Hostile:
    parts = {
        "content_type": _short(_content_type(dice)),
        "content_encoding": _short(dice.choice([b"", b"utf-8", b"gzip", short(dice)])),
        "headers": _table(dice, 0),
        "delivery_mode": bytes([dice.choice([1, 2])]),
        "priority": bytes([dice.choice([0, 4, 9, 10, 255])]),
        "correlation_id": _short(short(dice)),
        "reply_to": _short(short(dice)),
        "message_id": _short(dice.choice([f"id {number}".encode()] * 4 + [short(dice)])),
        "timestamp": struct.pack(">Q", abs(dice.choice([*EDGES, 2**64 - 1]))),
        "type": _short(short(dice)),
        "app_id": _short(short(dice)),
        "cluster_id": _short(short(dice)),
    }
    properties = _properties({name: part for name, part in parts.items() if dice.random() < 0.4})
    return Hostile(properties, b"%d " % number * dice.randrange(2) + body(dice))


def _properties(parts: dict[str, bytes]) -> bytes:
    flags = sum(_BITS[name] for name in parts)
    return struct.pack(">H", flags) + b"".join(parts[name] for name in _BITS if name in parts)


def _content_type(dice: random.Random) -> bytes:
    charset = dice.choice(CHARSETS)
    kinds = [
        "text/plain; charset=",
        "text/plain;charset=",
        "TEXT/xml; a=b; CHARSET=",
        "application/json; charset=",
    ]
    return dice.choice([(dice.choice(kinds) + charset).encode(), b"application/json", short(dice)])


def _short(text: bytes) -> bytes:
    return bytes([len(text[:255])]) + text[:255]


def _long(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def _table(dice: random.Random, depth: int) -> bytes:
    pieces = [
        _short(dice.choice([dice.choice(_NAMES).encode(), short(dice), b"x-delivery-count", b"x-death"]))
        + _value(dice, depth + 1)
        for _ in range(dice.randrange(4))
    ]
    return _long(b"".join(pieces))


def _value(dice: random.Random, depth: int) -> bytes:
    edge = dice.choice(EDGES)
    return dice.choice(
        [
            b"S" + _long(short(dice)),
            b"x" + _long(short(dice)),
            b"T" + struct.pack(">Q", edge % 2**64),
            b"l" + struct.pack(">q", edge),
            b"I" + struct.pack(">i", max(min(edge, 2**31 - 1), -(2**31))),
            b"d" + struct.pack(">d", dice.choice([-0.0, 5e-324, 1e300, 0.5])),
            b"f" + struct.pack(">f", dice.choice([-0.0, 3e38, 0.5])),
            b"D" + bytes([dice.randrange(256)]) + struct.pack(">i", -5),
            b"t" + bytes([dice.randrange(3)]),
            b"V",
            b"b\x80",
            b"s\x80\x00",
            b"F" + _table(dice, depth) if depth < 4 else b"V",
            b"A" + _long(_value(dice, depth + 1)) if depth < 4 else b"V",
            b"A" + _nested(dice.choice([5, 3000])),
        ]
    )


def _nested(depth: int) -> bytes:
    value = b"V"
    for _ in range(depth):
        value = b"A" + _long(value)
    return _long(value)


#: A timestamp among the headers of milliseconds, where seconds belong: beyond the year 9999.
LATE = Hostile(with_headers(header("at", b"T", (1_700_000_000_000).to_bytes(8)), message_id=b"late"), b"x")
