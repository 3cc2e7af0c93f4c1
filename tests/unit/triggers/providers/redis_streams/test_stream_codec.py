"""Messages as fields of a stream entry."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some
from redis.crc import key_slot

from history.errors import ConfigurationError
from history.identity import LONGEST
from history.message import MOST_IN_PROPERTIES, Message, Uuid
from triggers.providers.brokers.delivery import UndecodableError
from triggers.providers.redis_streams.codec import decode, encode
from triggers.providers.redis_streams.settings import StreamKeys, beside

TIME = b"1700000000123"
ENTRY = TIME + b"-7"

#: Fields that are not a message, and the name that the problem must contain.
UNREADABLE: dict[str, tuple[dict[bytes, bytes], str]] = {
    "no body": ({b"uuid": b"u1"}, "body"),
    "no fields of ours": ({b"payload": b"x"}, "body"),
    "unknown kind": ({b"body": b"x", b"body-kind": b"yaml"}, "body-kind"),
    "text that is no UTF-8": ({b"body": b"\xff", b"body-kind": b"text"}, "body"),
    "broken JSON": ({b"body": b"{", b"body-kind": b"json"}, "body"),
    "bottomless JSON": ({b"body": b"[" * 100_000, b"body-kind": b"json"}, "body"),
    "too deep JSON": ({b"body": b"[" * 600 + b"]" * 600, b"body-kind": b"json"}, "body"),
    "header that is no UTF-8": ({b"body": b"x", b"JMSType": b"\xff"}, "JMSType"),
    "property that is no UTF-8": ({b"body": b"x", b"colour": b"\xff"}, "colour"),
    "name that is no UTF-8": ({b"body": b"x", b"\xff": b"x"}, "\\xff"),
    "empty id": ({b"body": b"x", b"JMSMessageID": b""}, "JMSMessageID"),
    "priority that is no number": ({b"body": b"x", b"JMSPriority": b"high"}, "JMSPriority"),
    "priority out of range": ({b"body": b"x", b"JMSPriority": b"10"}, "JMSPriority"),
    "timestamp that is no time": ({b"body": b"x", b"JMSTimestamp": b"yesterday"}, "JMSTimestamp"),
    "timestamp beyond time": ({b"body": b"x", b"JMSTimestamp": b"9" * 20}, "JMSTimestamp"),
    "endless number": ({b"body": b"x", b"JMSExpiration": b"9" * 5000}, "JMSExpiration"),
    "unknown mode": ({b"body": b"x", b"JMSDeliveryMode": b"3"}, "JMSDeliveryMode"),
    "properties that are no JSON": ({b"body": b"x", b"properties": b"a=1"}, "properties"),
    "properties that are no object": ({b"body": b"x", b"properties": b"[1]"}, "properties"),
    "long uuid": ({b"body": b"x", b"uuid": b"u" * (LONGEST + 1)}, "uuid"),
    "long id": ({b"body": b"x", b"JMSMessageID": b"u" * (LONGEST + 1)}, "JMSMessageID"),
    "long header": ({b"body": b"x", b"JMSType": b"t" * (LONGEST + 1)}, "JMSType"),
    "long property": ({b"body": b"x", b"colour": b"r" * MOST_IN_PROPERTIES}, "properties"),
    "long properties": ({b"body": b"x", **{b"colour %d" % n: b"r" * 3000 for n in range(100)}}, "properties"),
    "property that is no scalar": ({b"body": b"x", b"properties": b'{"a": [1]}'}, "properties"),
}


def fields_of(message: Message) -> dict[bytes, bytes]:
    words = encode(message)
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_message_names_the_field_and_the_remedy(case: str) -> None:
    fields, named = UNREADABLE[case]

    with pytest.raises(UndecodableError) as caught:
        decode("orders", ENTRY, fields, 1)

    problem, _, remedy = str(caught.value).rpartition("; ")
    assert named in problem.split(":")[0]
    assert "send" in remedy or "correct" in remedy


@pytest.mark.parametrize("fields", [{b"uuid": b""}, {b"properties": b'{"uuid": ""}'}])
def test_an_entry_whose_uuid_is_empty_is_known_by_its_id(fields: dict[bytes, bytes]) -> None:
    assert decode("orders", ENTRY, {b"body": b"x", **fields}, 1).uuid == "ID:orders:1700000000123-7"


def test_a_foreign_entry_is_a_message() -> None:
    fields = {b"uuid": b"u1", b"body": b'{"id": 5}', b"colour": "grün".encode()}

    message = decode("orders", ENTRY, fields, 1)

    assert message == Message(
        body=b'{"id": 5}',
        uuid=Uuid("u1"),
        message_id="ID:orders:1700000000123-7",
        delivery_count=1,
        destination="orders",
        timestamp=datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
        properties={"colour": "grün"},
    )


def test_only_the_pending_list_knows_the_count() -> None:
    fields = {b"body": b"x", b"JMSXDeliveryCount": b"many", b"JMSRedelivered": b"maybe"}

    first, third = decode("orders", ENTRY, fields, 1), decode("orders", ENTRY, fields, 3)

    assert (first.delivery_count, first.redelivered) == (1, False)
    assert (third.delivery_count, third.redelivered) == (3, True)
    assert not third.properties


def test_an_entry_numbered_by_its_producer_needs_no_timestamp() -> None:
    assert decode("orders", b"18446744073709551615-1", {b"body": b"x"}, 1).timestamp is None


def test_text_that_is_no_unicode_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="send such a text as bytes"):
        encode(Message(body="\ud800"))


texts = some.text(some.characters(exclude_categories=["Cs"]))
names = texts.filter(lambda name: not name.startswith("JMS") and name != "uuid")
scalar = some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | texts


@given(
    properties=some.dictionaries(names, scalar), body=some.binary() | texts | some.dictionaries(texts, scalar)
)
def test_any_properties_and_body_come_back(properties: dict[str, object], body: object) -> None:
    sent = Message.model_validate({"body": body, "properties": properties})

    got = decode("orders", ENTRY, fields_of(sent), 1)

    assert got.body == sent.body
    assert repr(sorted(got.properties.items())) == repr(sorted(sent.properties.items()))


known = [b"body", b"body-kind", b"properties", b"uuid", b"JMSType", b"JMSPriority", b"JMSTimestamp"]
known += [b"JMSExpiration", b"JMSDeliveryMode", b"JMSXGroupSeq", b"JMSRedelivered", b"JMSMessageID"]
likely = some.sampled_from([b"", b"json", b"text", b"{}", b'{"a": {}}', b'{"uuid": 5}'])
numbers = some.integers().map(lambda number: str(number).encode())


@given(fields=some.dictionaries(some.sampled_from(known) | some.binary(), some.binary() | numbers | likely))
def test_any_fields_are_a_message_or_unreadable(fields: dict[bytes, bytes]) -> None:
    try:
        message = decode("orders", ENTRY, fields, 1)
    except UndecodableError:
        return
    assert message.delivery_count == 1


@given(milliseconds=some.integers(min_value=0, max_value=253402300799999))
def test_an_entrys_id_tells_the_exact_millisecond(milliseconds: int) -> None:
    message = decode("orders", b"%d-0" % milliseconds, {b"body": b""}, 1)

    assert message.headers()["JMSTimestamp"] == milliseconds


@pytest.mark.parametrize("stream", ["orders", "{shop}:orders", "shop:{7}:orders", "a{b", "{", "größe", "a:b"])
def test_a_streams_keys_share_its_slot(stream: str) -> None:
    for key in StreamKeys(stream, "group", "name").scripted:
        assert key_slot(key.encode()) == key_slot(stream.encode())


def test_two_subscriptions_never_share_a_key() -> None:
    one = StreamKeys("orders", "a:b", "c").scripted
    two = StreamKeys("orders", "a", "b:c").scripted

    assert not set(one[1:3]) & set(two[1:3])


def test_dead_letters_stand_beside_their_stream() -> None:
    assert beside("orders", "dlq") == "{orders}:dlq"
    assert beside("{shop}:orders", "dlq") == "{shop}:orders:dlq"
