"""Hostile deliveries of AMQP 1.0: sections of odd types, as far as RabbitMQ 4 accepts them.

RabbitMQ 4 neither accepts nor refuses a message that has no body, or has described values beside its body. If
annotations contain null, decimals, or doubles that are NaN or infinite, it accepts the message, but can never
deliver it.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, cast
from uuid import UUID

import proton
from proton.utils import BlockingConnection

from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.hostile.content import CHARSETS, EDGES, NAMES, body, dice_of, short
from triggers.providers.amqp.management import queue_address

#: How long the broker may take over one message, in seconds; over some it takes for ever.
_PATIENCE = 5.0

#: As Any: proton is typed for a part only.
_proton = cast("Any", proton)


def deliveries(count: int, seed: int) -> Sequence[Any]:
    """Return ``count`` messages, most with a unique id."""
    dice = dice_of(seed)
    return [_hostile(dice, number) for number in range(count)]


def in_charset(charset: str) -> Any:
    kind = _proton.symbol(f"text/plain; charset={charset}")
    return _proton.Message(body=b"x", inferred=True, content_type=kind, durable=True)


def send(server: RabbitmqServer, queue: str, hostile: Sequence[Any]) -> None:
    """Send them; the broker refuses some, and hangs up."""
    line: Line | None = None
    for one in hostile:
        line = line or Line.to(server, queue)
        try:
            line.sender.send(one)
        except _proton.ProtonException:
            line.close()
            line = None
    if line is not None:
        line.close()


@dataclass(frozen=True, slots=True)
class Line:
    """A connection of proton's own, and a link on it."""

    connection: Any
    sender: Any

    @classmethod
    def to(cls, server: RabbitmqServer, queue: str) -> Self:
        """Connect."""
        account: Any = {"user": server.user, "password": server.password, "timeout": _PATIENCE}
        connection: Any = BlockingConnection(
            f"amqp://127.0.0.1:{server.port}", allowed_mechs="PLAIN", **account
        )
        return cls(connection, connection.create_sender(queue_address(queue)))

    def close(self) -> None:
        """Close it, unless it is closed already."""
        with suppress(_proton.ProtonException):
            self.connection.close()


def _hostile(dice: random.Random, number: int) -> Any:
    made = _proton.Message(durable=dice.random() < 0.5, priority=dice.choice([0, 4, 9, 10, 255]))
    made.body, made.inferred = dice.choice([(body(dice), True), (_value(dice, 0, nothing=""), False)])
    made.id = dice.choice([f"id {number}"] * 4 + [number, UUID(int=number), b"%d" % number, "", b"\xff"])
    words: dict[str, Any] = {
        "correlation_id": dice.choice(["", "c", 7, UUID(int=7), b"\xff\x00"]),
        "reply_to": _text(dice),
        "subject": _text(dice),
        "group_id": _text(dice),
        "group_sequence": dice.choice([0, 1, 2**31, 2**32 - 1]),
        "creation_time": dice.choice([1.0, 253_402_300_800.0, -(2.0**40), 2.0**52]),
        "expiry_time": dice.choice([253_402_300_800.0, 2.0**52]),
        "ttl": 4_000_000.0,
        "content_type": _proton.symbol(
            dice.choice(["application/json", f"text/plain; charset={_charset(dice)}"])
        ),
        "content_encoding": _proton.symbol(dice.choice(["gzip", "utf-8", ""])),
        "properties": {_name(dice): _value(dice, 3) for _ in range(dice.randrange(4))},
        "annotations": {_annotation(dice): _deliverable(dice) for _ in range(dice.randrange(3))},
    }
    for name, value in words.items():
        if dice.random() < 0.4:
            setattr(made, name, value)
    return made


def _charset(dice: random.Random) -> str:
    return dice.choice([name for name in CHARSETS if name.isascii()])


def _name(dice: random.Random) -> str:
    return dice.choice([*NAMES, "x-opt-jms-msg-type"])


def _text(dice: random.Random) -> str:
    return short(dice).decode("utf-8", "replace")


def _annotation(dice: random.Random) -> Any:
    return dice.choice(
        [_proton.symbol("x-opt-jms-msg-type"), _proton.symbol("x-opt-any"), _proton.symbol("x-opt-\x00")]
    )


def _deliverable(dice: random.Random) -> Any:
    return dice.choice(
        [True, dice.choice(EDGES), 0.5, "", short(dice), _text(dice), _proton.ulong(1), UUID(int=1)]
    )


def _value(dice: random.Random, depth: int, *, nothing: Any = None) -> Any:
    edge = dice.choice(EDGES)
    plain: list[Any] = [
        *(nothing, True, edge, 0.5, float("inf"), float("nan"), "", _text(dice), short(dice)),
        *(UUID(int=edge % 2**128), _proton.symbol("s"), _proton.char("c"), _proton.timestamp(edge)),
        *(
            _proton.ulong(edge % 2**64),
            _proton.byte(-1),
            _proton.ubyte(255),
            _proton.short(-7),
            _proton.float32(0.5),
        ),
        *(_proton.decimal32(7), _proton.decimal64(7), _proton.decimal128(b"\x01" * 16)),
    ]
    makers: list[Callable[[], Any]] = [
        lambda: [_value(dice, depth + 1) for _ in range(3)],
        lambda: {_value(dice, 3): _value(dice, depth + 1) for _ in range(2)},
        lambda: {"a": _value(dice, depth + 1)},
        lambda: _proton.Described(_proton.symbol("odd:thing"), "inner"),
        lambda: _proton.Array(_proton.UNDESCRIBED, _proton.Data.INT, 1, 2),
        lambda: _nested(dice.choice([3, 300])),
    ]
    return dice.choice(plain) if depth == 3 or dice.random() < 0.6 else dice.choice(makers)()


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value
