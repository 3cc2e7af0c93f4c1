"""JSON that is read without loss, and the form in which two bodies are compared."""

import json
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from history import MemoryHistory, Message
from history.json_text import MOST_NESTED, NotJsonError, canonical_json, read_json
from triggers import trigger
from triggers.service.fingerprints import fingerprint_of

PRECISE = b'{"amount": 100200300400500.0123, "more": 1e400, "list": [0.1]}'


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}'),
        ("10", "10.0"),
        ("10", "1e1"),
        ("0.5", "5E-1"),
        ("-0", "0.0"),
        ('"\\u00e9"', '"é"'),
        (b"\xef\xbb\xbf[1]", "[1]"),
    ],
)
def test_two_spellings_of_one_body_are_one(one: Any, other: Any) -> None:
    assert canonical_json(one) == canonical_json(other)
    assert fingerprint_of(one) == fingerprint_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("100200300400500600.01", "100200300400500600.99"),
        ("1e400", "2e400"),
        ("1e99999999999999999999", "2e99999999999999999999"),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
        ('{"a": 1, "a": 2}', '{"a": 2, "a": 1}'),
        ("1", '"1"'),
        ("[1]", "1"),
        ('{"#": "1e0"}', "1"),
        ("true", "1"),
    ],
)
def test_two_bodies_that_say_different_things_are_two(one: Any, other: Any) -> None:
    assert canonical_json(one) != canonical_json(other)
    assert fingerprint_of(one) != fingerprint_of(other)


def test_bytes_that_are_not_json_count_as_they_are() -> None:
    assert fingerprint_of(b"\xff") != fingerprint_of(b"\xfe")


def test_a_value_and_its_text_are_one_body() -> None:
    value = {"b": [1, 2.5, None, True], "a": "é\ud800"}

    assert canonical_json(value) == canonical_json(json.dumps(value))


@pytest.mark.parametrize(
    "text", [b"", b"\xff", "x", "[1", nested(MOST_NESTED + 2), nested(900), nested(300_000)]
)
def test_a_text_that_cannot_be_read_is_refused(text: Any) -> None:
    with pytest.raises(NotJsonError):
        read_json(text)


def test_a_text_may_be_as_deep_as_the_limit() -> None:
    assert read_json(nested(MOST_NESTED)).raw == nested(MOST_NESTED)


@pytest.mark.parametrize("levels", [600, 900])
def test_a_message_with_a_value_that_nobody_can_read_again_is_refused(levels: int) -> None:
    value: Any = []
    for _ in range(levels):
        value = [value]

    with pytest.raises(ValueError, match="body"):
        Message(body=value)


class Payment(BaseModel):
    amount: Decimal
    more: Decimal
    list: list[float]


def delivered(text: bytes, *, as_json: bool) -> Message:
    return Message.from_headers({"uuid": "p-1"}, read_json(text) if as_json else text)


@pytest.mark.parametrize("as_json", [True, False], ids=["JSON", "bytes"])
def test_each_parameter_gets_what_arrived(*, as_json: bool) -> None:
    message = delivered(PRECISE, as_json=as_json)
    got: dict[str, Any] = {}

    @trigger("pay", name="pay", history=MemoryHistory())
    def pay(payment: Payment) -> None:
        got["model"] = payment

    @trigger("pay", name="raw", history=MemoryHistory())
    def raw(body: bytes) -> None:
        got["bytes"] = body

    @trigger("pay", name="text", history=MemoryHistory())
    def text(body: str) -> None:
        got["text"] = body

    for service in (pay, raw, text):
        assert service.handle(message).executed

    assert got["model"] == Payment(amount=Decimal("100200300400500.0123"), more=Decimal("1e400"), list=[0.1])
    assert (got["bytes"], got["text"]) == (PRECISE, PRECISE.decode())


@pytest.mark.parametrize("as_json", [True, False], ids=["JSON", "bytes"])
@pytest.mark.parametrize(
    "text",
    [b'\xef\xbb\xbf{"a": 1}', b'{"a": 1, "b": NaN}', b'{"a": 1, "b": "\\ud800"}', b'{"a": 1, "b": 1e400}'],
)
def test_filter_identity_and_service_read_the_same_bodies(text: bytes, *, as_json: bool) -> None:
    seen: list[Any] = []

    @trigger("q", name="q", history=MemoryHistory(), filter="body.a = 1", uuid="body.a")
    def service(body: dict[str, Any]) -> None:
        seen.append(body["a"])

    assert (seen, service.handle(delivered(text, as_json=as_json)).uuid) == ([1], "1")


def test_a_parked_copy_is_what_arrived() -> None:
    message = delivered(PRECISE, as_json=True)

    again = Message.from_json(message.to_json())

    assert (again, again.encoded()) == (message, PRECISE)
    assert message.model_copy(update={"body": {"a": 1}}).encoded() == b'{"a":1}'
