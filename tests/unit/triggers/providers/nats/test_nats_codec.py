"""Messages of other publishers arrive complete, even values that no NATS header can carry."""

from typing import Any

import pytest

from history.message import Message, Uuid
from triggers.providers.brokers.delivery import UndecodableError
from triggers.providers.nats.codec import NatsDelivered, decode, delivered, encode, letter_of, raw_fields

STORED = 1_700_000_000_123_456_789


def came(payload: bytes = b"x", headers: dict[str, str] | None = None, count: int = 1) -> NatsDelivered:
    return NatsDelivered("orders", "$JS.ACK.x", payload, headers or {}, "ORDERS", 17, count, STORED)


class TestForeignMessages:
    def test_one_without_anything_is_known_by_its_place_and_time(self) -> None:
        message = decode(came(b"\x00\x05avro"))

        assert message.body == b"\x00\x05avro"
        assert (message.uuid, message.message_id) == (f"ID:ORDERS:17:{STORED}",) * 2
        assert (message.destination, message.delivery_count, message.redelivered) == ("orders", -1, False)
        assert message.timestamp is not None
        assert round(message.timestamp.timestamp() * 1000) == STORED // 1_000_000

    @pytest.mark.parametrize(
        ("headers", "uuid"),
        [
            ({"Nats-Msg-Id": "n"}, "n"),
            ({"Nats-Msg-Id": "n", "JMSMessageID": "ID:m"}, "ID:m"),
            ({"Nats-Msg-Id": "n", "JMSMessageID": "ID:m", "uuid": "u"}, "u"),
        ],
        ids=["of JetStream", "JMSMessageID", "uuid"],
    )
    def test_the_most_telling_header_is_its_identity(self, headers: dict[str, str], uuid: str) -> None:
        assert decode(came(headers=headers)).uuid == uuid

    @pytest.mark.parametrize("name", ["content-type", "Content-Type", "CONTENT-TYPE"])
    def test_a_content_type_says_what_the_body_is(self, name: str) -> None:
        message = decode(came(b'{"id": 1}', {name: "application/json"}))

        assert (message.body, dict(message.properties)) == ({"id": 1}, {})

    @pytest.mark.parametrize(
        "headers",
        [
            {"content-type": "application/json"},
            {"properties": "{"},
            {"properties": "[]"},
            {"JMSPriority": "x"},
        ],
        ids=str,
    )
    def test_what_is_no_message_says_why(self, headers: dict[str, str]) -> None:
        with pytest.raises(UndecodableError):
            decode(came(b"{ cut", headers))

    def test_more_than_one_delivery_is_a_redelivery(self) -> None:
        assert decode(came(count=2), count=2).redelivered is True


@pytest.mark.parametrize(
    "properties",
    [
        {"lines": "a\nb"},
        {"spaced": " a "},
        {"not ascii ü": "a"},
        {"Nats-Msg-Id": "elsewhere"},
        {"nats-expected-last-sequence": "5"},
        {"number": 5, "flag": True, "none": None},
        {"": "unnamed"},
    ],
    ids=str,
)
def test_what_no_header_carries_comes_as_it_was(properties: dict[str, Any]) -> None:
    sent = Message(body="x", uuid=Uuid("u"), correlation_id="two\r\nlines", properties=properties)
    published = encode(sent)

    assert not [name for name in published.headers if name.lower().startswith("nats-")]
    assert all(text == text.strip() and "\n" not in text for text in published.headers.values())
    message = decode(came(published.payload, dict(published.headers)))
    assert {name: message.properties[name] for name in properties} == properties
    assert message.correlation_id == "two\r\nlines"


@pytest.mark.parametrize(
    "answer",
    [
        "$JS.ACK.ORDERS.book.3.17.5.1700000000123456789.0",
        "$JS.ACK.hub.ACCOUNT.ORDERS.book.3.17.5.1700000000123456789.0",
        "$JS.ACK._.ACCOUNT.ORDERS.book.3.17.5.1700000000123456789.0.random",
    ],
    ids=["plain", "of a domain", "of an account"],
)
def test_what_the_subject_for_answers_says(answer: str) -> None:
    found = delivered("orders", answer, b"", None)

    assert (found.stream, found.count, found.sequence, found.stored) == ("ORDERS", 3, 17, STORED)


def test_an_unreadable_message_keeps_everything_and_so_does_its_letter() -> None:
    fields = raw_fields(came(b"\xff", {"a": "1", "content-type": "application/json"}))

    assert fields[b"body"] == b"\xff"
    assert (fields[b"subject"], fields[b"stream"], fields[b"sequence"]) == (b"orders", b"ORDERS", b"17")
    letter = letter_of(fields, "two\nlines")
    assert (letter.payload, letter.headers["a"]) == (b"\xff", "1")
    assert letter.headers["dead-letter-reason"] == "two lines"
