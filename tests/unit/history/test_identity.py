"""The canonical identity: which values are equal, which are different, and which are not an identity."""

from datetime import date
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from history import ConfigurationError, MemoryHistory, Message
from history.identity import LONGEST, IdentityError, canonical
from triggers import trigger
from triggers.guards import protect
from triggers.guards.keys import uuid_for

Number = IntEnum("Number", {"SEVEN": 7})
Text = StrEnum("Text", {"ORDER": "order-1"})

CANONICAL = [
    ("order-1", "order-1"),
    (" ", " "),
    ("half \ud800", "half \ud800"),
    (Text.ORDER, "order-1"),
    (7, "7"),
    (-7, "-7"),
    (Number.SEVEN, "7"),
    (2**70, "1180591620717411303424"),
    (b"\x00\xff", "00ff"),
    (bytearray(b"a"), "61"),
    (UUID("6FA459EA-EE8A-3CA4-894E-DB77E160355E"), "6fa459ea-ee8a-3ca4-894e-db77e160355e"),
    (["shop", 7], '["shop",7]'),
    (("shop", "7"), '["shop","7"]'),
    ("x" * LONGEST, "x" * LONGEST),
    ([UUID(int=7), b"\xff"], '["00000000-0000-0000-0000-000000000007","ff"]'),
    (['a","b'], r'["a\",\"b"]'),
    (["é"], '["é"]'),
]

#: Values that two processes may write in two ways.
REFUSED: list[Any] = [
    *(True, 7.0, float("nan"), Decimal(7), date(2026, 1, 1), {"a": 1}, {"a"}, object()),
    *([None], [True], [1.0], [["a"]], 10**5000),
    *("x" * 1_000_000, "x" * (LONGEST + 1), ["x" * LONGEST], b"x" * LONGEST),
]


@pytest.mark.parametrize(("value", "identity"), CANONICAL)
def test_a_value_has_the_same_identity_at_every_door(value: Any, identity: str) -> None:
    seen: list[str] = []
    guard = protect("guard", history=MemoryHistory())

    @trigger("orders", name="book", history=MemoryHistory(), uuid=lambda _: value)
    def book(message: Message) -> None:
        seen.append(str(message.uuid))

    book.handle(Message(body=None))

    doors = [*seen, canonical(value), Message(body=None, uuid=value).uuid, uuid_for(guard, lambda: value)]
    doors += [guard.handle(value, lambda: None).uuid, Message(body=None, properties={"uuid": value}).uuid]
    assert doors == [identity] * 6


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_a_value_without_a_canonical_form_runs_nothing_at_any_door(value: Any) -> None:
    ran: list[str] = []
    guard = protect("guard", history=MemoryHistory())

    @trigger("orders", name="book", history=MemoryHistory(), uuid=lambda _: value)
    def book(message: Message) -> None:
        ran.append(str(message.uuid))

    outcome = book.handle(Message(body=None))

    assert (outcome.row, outcome.parked, ran) == (19, True, [])
    assert uuid_for(guard, lambda: value) is None
    with pytest.raises(IdentityError):
        canonical(value)
    with pytest.raises(ValidationError):
        Message(body=None, uuid=value)
    with pytest.raises(ConfigurationError) as refused:
        guard.handle(value, lambda: ran.append("guard"))
    assert (refused.value.setting, ran) == ("uuid", [])


@pytest.mark.parametrize("value", [None, "", b"", [], ()])
def test_an_empty_value_is_no_identity_and_its_call_is_parked(value: Any) -> None:
    ran: list[str] = []

    outcome = protect("guard", history=MemoryHistory()).handle(value, lambda: ran.append("guard"))

    assert (canonical(value), outcome.row, outcome.parked, ran) == (None, 19, True, [])
