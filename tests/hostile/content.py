"""Hostile bodies, names and values, whatever the wire; the same for the same seed."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime

#: Charsets that do not exist, or that take very long, and some real ones.
CHARSETS = [
    *("undefined", "punycode", "idna", "rot13", "base64", "hex", "zip", "unicode_escape", "utf-7", "utf-99"),
    *(
        *("utf\x00-8", "", "x" * 200, "../../etc/passwd", "__main__", "\N{SNOWMAN}", "utf-8"),
        *("utf-16", "latin-1"),
    ),
]

#: Numbers about the edges of 8, 16, 32 and 64 bits, and of the calendar in seconds and milliseconds.
EDGES = sorted(
    {0, 1, -1, 253_402_300_800, 253_402_300_800_000, int(datetime.now(UTC).timestamp() * 1000)}
    | {sign * 2**bits + more for bits in (7, 8, 15, 16, 31, 32, 62) for sign in (1, -1) for more in (-1, 0)}
    | {2**63 - 1, -(2**63)}
)

#: Names that mean something somewhere.
NAMES = [
    *("uuid", "JMSMessageID", "JMSXDeliveryCount", "JMSRedelivered", "JMSDeliveryMode", "JMSPriority"),
    *("JMSTimestamp", "JMSExpiration", "JMSDeliveryTime", "JMSXGroupID", "JMSXGroupSeq", "JMSCorrelationID"),
    *("body", "body-kind", "properties", "jms_body", "dead-letter-reason", "amount", "x-anything", "CC"),
    *("", " ", "\N{SNOWMAN}", "n" * 200, "a\x00b", "message", "problem", "headers", "content_type"),
]


def dice_of(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  (nothing is secret here)


def body(dice: random.Random) -> bytes:
    """Return a body: JSON that is none, or is too deep, texts that are none, or anything."""
    depth = dice.choice([10, 300, 900, 5000])
    strange = {"id": dice.choice(EDGES), "t": "\ud800", "n": float("nan")}
    makers: list[Callable[[], bytes]] = [
        lambda: b"[" * dice.choice([1, 200, 100_000]),
        lambda: b"[" * depth + b"]" * depth,
        lambda: b"9" * dice.choice([20, 400, 5000]),
        lambda: json.dumps(strange).encode(),
        lambda: dice.randbytes(dice.randrange(200)),
        lambda: "grüße".encode(dice.choice(["utf-8", "utf-16", "latin-1"])),
        lambda: b"-" * 20_000 + dice.randbytes(20_000).hex().encode(),
        lambda: b"",
    ]
    return dice.choice(makers)()


def short(dice: random.Random) -> bytes:
    """Return a short text that may be none."""
    return dice.choice(
        [b"", b"plain", b"\xff\xfe", "\N{SNOWMAN}".encode(), b"a\x00b", dice.randbytes(12), b"n" * 200]
    )
