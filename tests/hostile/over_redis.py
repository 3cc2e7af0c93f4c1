"""Hostile entries of a Redis stream: fields of any names and values."""

import random
from collections.abc import Sequence
from typing import Any

from tests.hostile.content import EDGES, NAMES, body, dice_of, short

Hostile = dict[bytes, bytes]


def deliveries(count: int, seed: int) -> Sequence[Hostile]:
    dice = dice_of(seed)
    return [_hostile(dice) for _ in range(count)]


def send(client: Any, stream: str, hostile: Sequence[Hostile]) -> None:
    for one in hostile:
        client.xadd(stream, one)


def _hostile(dice: random.Random) -> Hostile:
    made: Hostile = {}
    if dice.random() < 0.9:
        made[b"body"] = body(dice)
    if dice.random() < 0.5:
        made[b"body-kind"] = dice.choice([b"json", b"text", b"bytes", short(dice)])
    if dice.random() < 0.3:
        made[b"properties"] = dice.choice(
            [b'{"a": [1]}', b'{"uuid": 1e400}', b'{"a": NaN}', body(dice), short(dice)]
        )
    for _ in range(dice.randrange(4)):
        name = dice.choice([dice.choice(NAMES).encode(), short(dice)])
        made[name] = dice.choice([short(dice), str(dice.choice(EDGES)).encode(), b"9" * 5000])
    return made or {b"": b""}
