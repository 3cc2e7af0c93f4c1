"""Records of other producers become complete messages; an unreadable record has a reason and its bytes."""

from typing import Any

import pytest

from history.message import Message
from triggers.providers.brokers.delivery import UndecodableError
from triggers.providers.kafka.codec import Consumed, KafkaRecord, decode, encode, letter_of, raw_fields


def consumed(
    value: bytes | None = b"x",
    *headers: tuple[str, bytes | None],
    key: bytes | None = None,
    again: bool = False,
) -> Consumed:
    return Consumed("orders", 2, 17, KafkaRecord(value, key, headers, 1_700_000_000_123), again)


class TestForeignRecords:
    def test_one_without_anything_is_known_by_its_place_and_time(self) -> None:
        message = decode(consumed(b"\x00\x00\x00\x00\x05avro"))

        assert message.body == b"\x00\x00\x00\x00\x05avro"
        name = "ID:orders:2:17:1700000000123"
        assert (message.uuid, message.message_id) == (name, name)
        assert (message.destination, message.delivery_count, message.redelivered) == ("orders", -1, False)
        assert message.timestamp is not None
        assert round(message.timestamp.timestamp() * 1000) == 1_700_000_000_123

    @pytest.mark.parametrize("name", ["JMSMessageID", "jmsmessageid", "uuid"])
    def test_a_header_without_a_value_is_not_its_identity(self, name: str) -> None:
        assert decode(consumed(b"x", (name, None))).uuid == "ID:orders:2:17:1700000000123"

    #: A record without a timestamp has the time -1.
    @pytest.mark.parametrize("sent", [-1, 1_700_000_000_123_000, 2**63 - 1, -(2**63)])
    def test_a_time_that_no_calendar_has_is_none(self, sent: int) -> None:
        message = decode(Consumed("orders", 2, 17, KafkaRecord(b"x", None, (), sent), again=False))

        assert (message.timestamp, message.uuid) == (None, f"ID:orders:2:17:{sent}")

    def test_a_uuid_header_is_its_identity(self) -> None:
        assert decode(consumed(b"x", ("uuid", b"order-1"))).uuid == "order-1"
        assert decode(consumed(b"x", ("uuid", b"\xff\x00"))).uuid == "ff00"

    @pytest.mark.parametrize(
        ("key", "group", "properties"),
        [(b"customer 5", "customer 5", {}), (b"\xff\x01", "ff01", {"kafka_key": "ff01"}), (None, None, {})],
        ids=["text", "bytes", "none"],
    )
    def test_a_key_is_a_group_and_in_hex_where_it_is_no_text(
        self, key: bytes | None, group: str | None, properties: dict[str, Any]
    ) -> None:
        message = decode(consumed(key=key))

        assert (message.group_id, dict(message.properties)) == (group, properties)

    def test_a_tombstone_says_so(self) -> None:
        message = decode(consumed(None, key=b"k"))

        assert (message.body, message.properties["kafka_tombstone"]) == (b"", True)

    def test_headers_are_properties_and_the_last_of_a_name_counts(self) -> None:
        message = decode(consumed(b"x", ("a", b"1"), ("b", None), ("a", "ü".encode()), ("c", b"\xfe")))

        assert dict(message.properties) == {"a": "ü", "b": None, "c": "fe"}

    @pytest.mark.parametrize(
        "headers",
        [
            [("content-type", b"application/json")],
            [("content-type", b"text/plain; charset=klingon")],
            [("JMSTimestamp", b"tomorrow")],
            [("JMSPriority", b"11")],
            [("properties", b"[1]")],
            [("properties", b"{")],
        ],
        ids=["json", "charset", "timestamp", "priority", "typed list", "typed garbage"],
    )
    def test_what_is_no_message_is_refused_and_kept(self, headers: list[tuple[str, bytes | None]]) -> None:
        found = consumed(b"{ cut off", *headers, key=b"\xff")

        with pytest.raises(UndecodableError):
            decode(found)
        fields = raw_fields(found)
        assert (fields[b"body"], fields[b"key"], fields[b"offset"]) == (b"{ cut off", b"\xff", b"17")
        letter = letter_of(fields, "no message")
        assert (letter.value, letter.key) == (b"{ cut off", b"\xff")
        assert ("dead-letter-reason", b"no message") in letter.headers

    def test_headers_named_like_other_parts_or_like_each_other_are_all_kept(self) -> None:
        headers = [("body", b"1"), ("a", b"2"), ("a", b"3"), ("a", b"4"), ("a (2)", b"5")]

        fields = raw_fields(consumed(b"{", *headers))

        assert (fields[b"body"], fields[b"body (2)"], fields[b"a"]) == (b"{", b"1", b"4")
        assert {fields[name] for name in fields if name.startswith(b"a ")} == {b"2", b"3", b"5"}


class TestOurRecords:
    def test_a_group_is_the_key(self) -> None:
        assert encode(Message(body=b"x", group_id="customer 5")).key == b"customer 5"
        assert encode(Message(body=b"x")).key is None

    @pytest.mark.parametrize(
        "name", ["content-type", "properties", "kafka_tombstone", "kafka_key", "a\0b", ""]
    )
    def test_a_property_whose_name_no_header_can_have_arrives(self, name: str) -> None:
        record = encode(Message(body=b"x", uuid="u", properties={name: "kept"}))

        assert name not in dict(record.headers) or name in ("content-type", "properties")
        assert decode(Consumed("orders", 0, 0, record, again=False)).properties[name] == "kept"
