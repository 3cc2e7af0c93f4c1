"""Every message arrives as it was sent, in few attributes and in text that SQS allows."""

import re
from typing import Any

import pytest

from history import Message, Uuid
from triggers.providers import Limits, UndecodableError
from triggers.providers.sqs.codec import Attributes, SqsDelivered, decode, encode, letter_of, raw_fields

ALLOWED = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


def came(body: str = "x", attributes: Attributes | None = None, count: int = 1) -> SqsDelivered:
    return SqsDelivered("orders", "receipt", "m-1", body, attributes or {}, count, 1_700_000_000_123, None)


def text(value: str) -> dict[str, Any]:
    return {"DataType": "String", "StringValue": value}


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\x00", "", "text", "grüße\x00", "\ufffe", {"a": [None, 1.5]}, [], None, True, 0, "=", b"="],
    ids=repr,
)
def test_a_body_comes_as_it_was(body: Any) -> None:
    sent = encode(Message(body=body, uuid=Uuid("u")))

    assert ALLOWED.fullmatch(sent.body)
    arrived = decode(came(sent.body, sent.attributes)).body
    assert (type(arrived), arrived) == (type(body), body)


@pytest.mark.parametrize("uuid", ["u", "with\x00zero", "ü", "\ud800".encode("utf-8", "surrogatepass").hex()])
def test_everything_else_stands_in_few_attributes(uuid: str) -> None:
    properties: dict[str, Any] = {f"property {number}": number for number in range(30)}
    message = Message(body=b"x", uuid=Uuid(uuid), correlation_id="c\x00", properties=properties)

    sent = encode(message)

    assert len(sent.attributes) <= 4
    assert all(ALLOWED.fullmatch(one["StringValue"]) for one in sent.attributes.values())
    arrived = decode(came(sent.body, sent.attributes))
    assert (arrived.uuid, arrived.correlation_id) == (uuid, "c\x00")
    assert {name: arrived.properties[name] for name in properties} == properties


def test_the_size_is_that_of_body_names_types_and_values() -> None:
    sent = encode(Message(body="ü", uuid=Uuid("u")))

    counted = sum(len(f"{name}String{one['StringValue']}") for name, one in sent.attributes.items())
    assert sent.size == 2 + counted


def test_the_guess_of_deliveries_is_told_beyond_the_limit_only() -> None:
    limits = Limits(max_delivery_count=3)

    counts = [decode(came(count=count), limits).delivery_count for count in (1, 2, 3, 4, 9)]

    assert counts == [-1, -1, -1, 4, 9]
    assert [decode(came(count=count)).redelivered for count in (1, 2)] == [False, True]


@pytest.mark.parametrize(
    "attributes",
    [
        {"content-type": text("application/json")},
        {"content-encoding": text("base64")},
        {"content-encoding": text("gzip"), "content-type": text("text/plain")},
        {"properties": text("[]")},
        {"JMSPriority": text("high")},
    ],
    ids=str,
)
def test_what_is_no_message_says_why(attributes: Attributes) -> None:
    with pytest.raises(UndecodableError):
        decode(came("{ cut", attributes))


def test_a_letter_keeps_what_came_and_no_more_attributes_than_sqs_allows() -> None:
    attributes = {f"a{number}": text(str(number)) for number in range(10)}

    letter = letter_of(came("\ud7ff", attributes), "bad\x00reason")

    assert (letter.body, len(letter.attributes)) == ("\ud7ff", 10)
    assert letter.attributes["dead-letter-reason"]["StringValue"] == "bad reason"


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("7", 7),
        ("-1.50", -1.5),
        ("1e3", 1000.0),
        ("12345678901234567890123456789012345678", 12345678901234567890123456789012345678),
        ("100200300400500.0123", "100200300400500.0123"),
        ("1e400", "1e400"),
        ("NaN", "NaN"),
        ("sNaN", "sNaN"),
        ("many", "many"),
    ],
)
def test_a_number_keeps_its_digits(number: str, value: object) -> None:
    message = decode(came("x", {"n": {"DataType": "Number", "StringValue": number}}))

    assert (type(message.properties["n"]), message.properties["n"]) == (type(value), value)


def test_an_unreadable_message_is_kept_as_it_came() -> None:
    number = {"DataType": "Number.int", "StringValue": "007.0"}
    fields = raw_fields(came("{", {"content-type": text("application/json"), "n": number}))

    assert (fields[b"body"], fields[b"n"]) == (b"{", b"007.0")
