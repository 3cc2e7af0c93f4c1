"""Messages in AMQP 0-9-1 and AMQP 1.0, and the URLs of both; the tests need no broker."""

import struct
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some
from proton import Message as ProtonMessage
from proton import symbol

from history import ConfigurationError, Message
from history.json_text import JsonText
from tests.hostile import over_amqp
from tests.hostile.content import dice_of
from triggers.providers import Arrival, UndecodableError, read
from triggers.providers.amqp import codec as amqp_codec
from triggers.providers.brokers.codec import decode_body
from triggers.providers.brokers.trust import AMQP_CLASSIC, AMQP_QUORUM, OTHER_AMQP, FirstCount, TrustProfile
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.rabbitmq import codec as rabbitmq_codec
from triggers.providers.rabbitmq.frames import Packer, driver, properties_of, unpacked
from triggers.providers.rabbitmq.settings import RabbitmqSettings, arguments_of

texts = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
values = some.one_of(
    texts, some.booleans(), some.integers(-(2**63), 2**63 - 1), some.floats(allow_nan=False), some.none()
)
json_values = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**53), 2**53) | texts,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
messages = some.builds(
    Message,
    body=some.one_of(some.binary(max_size=40), texts, json_values),
    message_id=texts.filter(bool),
    priority=some.integers(0, 9),
    persistent=some.booleans(),
    correlation_id=some.none() | texts.filter(bool),
    group_id=some.none() | texts.filter(bool),
    group_sequence=some.none() | some.integers(-5, 2**31 - 1),
    # A property uuid is an identity, which cannot have every value.
    properties=some.dictionaries(
        texts.filter(lambda name: name not in {"", "uuid"} and not name.startswith(("JMS", "x-"))), values
    ),
)


def through_0_9_1(message: Message, **told: Any) -> Message:
    """Encode and decode, through pika's bytes."""
    basic, body = rabbitmq_codec.encode(message)
    sent = properties_of({**basic.properties, **told}, basic.headers)
    received: list[bytes] = []
    Packer(received.append).feed(driver.frame.Header(1, len(body), sent).marshal())
    _, frame = driver.frame.decode_frame(b"".join(received))
    origin = rabbitmq_codec.Origin(destination="orders", quorum=True)
    return rabbitmq_codec.decode(unpacked(frame.properties), body, redelivered=False, origin=origin)


def through_1_0(message: Message) -> Message:
    origin = amqp_codec.AmqpOrigin(destination="orders", profile=AMQP_QUORUM)
    return amqp_codec.decode(amqp_codec.encode(message), origin)


def content(message: Message) -> dict[str, Any]:
    """Return the parts of a message that must stay the same, with the types of properties."""
    told = message.model_dump(exclude={"destination", "delivery_count", "redelivered", "properties"})
    return {**told, "properties": {name: (type(v), v) for name, v in message.properties.items()}}


@pytest.mark.parametrize("through", [through_0_9_1, through_1_0], ids=["0-9-1", "1.0"])
@given(message=messages)
def test_a_message_survives_the_way_whatever_is_in_it(through: Any, message: Message) -> None:
    assert content(through(message)) == content(message)


@pytest.mark.parametrize("encode", [rabbitmq_codec.encode, amqp_codec.encode], ids=["0-9-1", "1.0"])
@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"n": 2**63}, "64 bits"),
        ({"t": "\ud800"}, "not valid Unicode"),
        ({"\ud800": 1}, "not valid Unicode"),
        ({"x" * 256: 1}, "longer than 255"),
    ],
    ids=["number", "text", "text of a name", "name"],
)
def test_what_amqp_cannot_carry_is_refused_by_name(
    encode: Any, properties: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        encode(Message(body=b"", properties=properties))


@pytest.mark.parametrize(
    ("quorum", "told", "redelivered", "count"),
    [
        (True, None, False, 1),
        (True, 0, False, 1),
        (True, 4, True, 5),
        (False, None, False, -1),
        (False, None, True, -1),
        (None, None, False, -1),
        (None, 2, True, 3),
    ],
)
def test_the_count_of_a_queue_in_rabbitmq(
    told: int | None, count: int, *, quorum: bool | None, redelivered: bool
) -> None:
    origin = rabbitmq_codec.Origin(destination="orders", quorum=quorum)

    assert origin.count(told, redelivered=redelivered) == count


@pytest.mark.parametrize("told", ["many", -1, True, 1.5])
def test_a_count_that_is_none_is_not_guessed(told: Any) -> None:
    with pytest.raises(UndecodableError, match="x-delivery-count"):
        rabbitmq_codec.Origin(destination="orders", quorum=True).count(told, redelivered=True)


@pytest.mark.parametrize(
    ("profile", "before", "redelivered", "first_count", "count"),
    [
        (AMQP_QUORUM, 0, False, FirstCount.WEIGHED, 1),
        (AMQP_QUORUM, 0, True, FirstCount.WEIGHED, -1),
        (AMQP_QUORUM, 0, True, FirstCount.AS_TOLD, 1),
        (AMQP_QUORUM, 2, True, FirstCount.WEIGHED, 3),
        (AMQP_CLASSIC, 0, False, FirstCount.WEIGHED, -1),
        (OTHER_AMQP, 0, False, FirstCount.WEIGHED, -1),
        (OTHER_AMQP, 0, False, FirstCount.AS_TOLD, 1),
        (OTHER_AMQP, 1, True, FirstCount.WEIGHED, 2),
    ],
)
def test_the_count_over_amqp_1_0(
    profile: TrustProfile, before: int, first_count: FirstCount, count: int, *, redelivered: bool
) -> None:
    origin = amqp_codec.AmqpOrigin(destination="orders", profile=profile, first_count=first_count)

    assert origin.count(before, redelivered=redelivered) == count


def test_a_url_is_taken_apart_and_its_password_not_shown() -> None:
    settings, url = RabbitmqSettings.from_url(
        "rabbitmqs://me:p%40ss@one,two:7/vh?queue_type=classic&first_count=as_told&heartbeat=7"
    )

    assert (list(url.hosts), url.path) == ([("one", 5671), ("two", 7)], "vh")
    assert (url.user, url.password, url.heartbeat) == ("me", "p@ss", 7)
    assert settings == RabbitmqSettings(queue_type="classic", first_count=FirstCount.AS_TOLD)
    assert "p@ss" not in repr(url)


@pytest.mark.parametrize(
    "url",
    [
        "rabbitmq://host/?prefetch=7",
        "rabbitmq://host/?queue_type=stream",
        "rabbitmq://host/?cafile=ca.pem",
        "rabbitmq://host/?sasl=none",
        "rabbitmq://host/?first_count=never",
        "rabbitmq://host:port/",
        "rabbitmq:///vhost",
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        RabbitmqSettings.from_url(url)


@pytest.mark.parametrize("heartbeat", ["1", "x", "-3", "1.5", "", "1000000000", "9" * 5000])
def test_a_heartbeat_that_cannot_be_is_named(heartbeat: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^heartbeat: must be a whole number of seconds from"):
        RabbitmqSettings.from_url(f"rabbitmq://host/?heartbeat={heartbeat}")


def test_a_tls_file_that_is_missing_is_named() -> None:
    url = BrokerUrl.read("amqps://host/?cafile=/nowhere.pem", example="amqp://h", ports=(1, 2), known=set())
    assert url.tls is not None

    with pytest.raises(ConfigurationError, match=r"/nowhere\.pem"):
        url.tls.context()


def test_only_a_newer_rabbitmq_is_told_not_to_limit_deliveries() -> None:
    assert "x-delivery-limit" not in arguments_of("orders", quorum=True, version=3)
    assert arguments_of("orders", quorum=True, version=4)["x-delivery-limit"] == -1
    assert "x-dead-letter-exchange" not in arguments_of("DLQ.orders", quorum=True, version=4)


@pytest.mark.parametrize(
    ("given", "known_as"),
    [
        ("m1", "m1"),
        (7, "ID:AMQP_ULONG:7"),
        (UUID(int=7), "ID:AMQP_UUID:00000000-0000-0000-0000-000000000007"),
        (b"\x00\xff", "ID:AMQP_BINARY:00ff"),
    ],
)
def test_an_id_of_any_type_of_amqp_is_the_same_at_each_delivery(given: Any, known_as: str) -> None:
    origin = amqp_codec.AmqpOrigin(destination="orders", profile=AMQP_QUORUM)
    encoded = ProtonMessage(body=b"x", inferred=True, id=given, correlation_id=given).encode()

    first, second = amqp_codec.decode(encoded, origin), amqp_codec.decode(encoded, origin)

    assert (first.uuid, second.uuid) == (known_as, known_as)
    assert first.correlation_id == known_as


def test_a_message_of_amqp_1_0_that_expires_after_all_calendars_never_does() -> None:
    """Azure Service Bus uses this time for a message that lives for ever."""
    origin = amqp_codec.AmqpOrigin(destination="orders", profile=AMQP_QUORUM)
    encoded = ProtonMessage(body=b"x", inferred=True, expiry_time=253_402_300_800, creation_time=1).encode()

    message = amqp_codec.decode(encoded, origin)

    assert message.expiration is None
    assert message.timestamp == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_any_bytes_are_a_message_of_amqp_1_0_or_undecodable() -> None:
    origin = amqp_codec.AmqpOrigin(destination="orders", profile=AMQP_QUORUM)
    dice = dice_of(20)
    for sent in over_amqp.deliveries(200, 20):
        encoded = bytearray(sent.encode())
        for _ in range(dice.randrange(4)):
            encoded[dice.randrange(len(encoded))] = dice.randrange(256)
        garbled = bytes(encoded[: dice.choice([len(encoded), dice.randrange(len(encoded))])])

        received = read(
            partial(amqp_codec.decode, garbled, origin),
            handle=1,
            delivery_id=lambda: "1",
            raw=partial(amqp_codec.raw_fields, garbled),
        )

        assert isinstance(received, Arrival) or received.fields[b"message"] == garbled


def test_json_may_begin_with_a_byte_order_mark() -> None:
    body = decode_body("application/json", None, b'\xef\xbb\xbf{"id": 1}')

    assert isinstance(body, JsonText)
    assert (body.value, body.raw) == ({"id": 1}, b'\xef\xbb\xbf{"id": 1}')


def test_a_body_that_is_nested_without_end_is_undecodable() -> None:
    origin = amqp_codec.AmqpOrigin(destination="orders", profile=AMQP_QUORUM)
    depth = 60_000
    lists = [b"\xd0" + struct.pack(">II", 9 * inner + 1 + 4, 1) for inner in reversed(range(depth))]
    value = b"".join(lists) + b"\x40"

    with pytest.raises(UndecodableError):
        amqp_codec.decode(b"\x00\x53\x77" + value, origin)


#: Properties and bodies from other senders that are not valid messages, by wire.
STRANGE: dict[str, dict[str, tuple[dict[str, Any], bytes]]] = {
    "rabbitmq": {
        "a header that is an array": ({"headers": {"amounts": [1, 2]}}, b"x"),
        "a header that is bytes": ({"headers": {"amount": b"\xff"}}, b"x"),
        "an id that is empty": ({"headers": {"uuid": ""}}, b"x"),
        "a compressed body": ({"content_encoding": "gzip"}, b"\x1f\x8b"),
        "no JSON": ({"content_type": "application/json"}, b"{"),
        "no text": ({"content_type": "text/plain"}, b"\xff"),
        "a charset that is none": ({"content_type": "text/plain; charset=undefined"}, b"x"),
        "a type that is no UTF-8": ({"content_type": b"text/\xff"}, b"x"),
        "a Java object": ({"content_type": "application/x-java-serialized-object"}, b"\xac\xed"),
        "an expiration that is no number": ({"headers": {"JMSExpiration": "soon"}}, b"x"),
    },
    "amqp": {
        "a property that is bytes": ({"properties": {"amount": b"\xff"}}, b"x"),
        "an id that is empty": ({"properties": {"uuid": ""}}, b"x"),
        "a compressed body": ({"content_encoding": symbol("gzip")}, b"\x1f\x8b"),
        "no JSON": ({"content_type": symbol("application/json")}, b"{"),
        "a charset that is none": ({"content_type": symbol("text/plain; charset=undefined")}, b"x"),
        "a map that is no JSON": ({"body": {1: "x"}, "inferred": False}, b""),
        "a Java object": ({"content_type": symbol("application/x-java-serialized-object")}, b"\xac\xed"),
        "an expiration that is no number": ({"properties": {"JMSExpiration": "soon"}}, b"x"),
    },
}


@pytest.mark.parametrize("name", STRANGE["rabbitmq"])
def test_what_others_send_over_amqp_0_9_1_may_be_no_message(name: str) -> None:
    words, body = STRANGE["rabbitmq"][name]
    properties = b"".join(driver.BasicProperties(**words).encode())
    origin = rabbitmq_codec.Origin(destination="orders", quorum=True)

    with pytest.raises(UndecodableError):
        rabbitmq_codec.decode(properties, body, redelivered=False, origin=origin)


@pytest.mark.parametrize("name", STRANGE["amqp"])
def test_what_others_send_over_amqp_1_0_may_be_no_message(name: str) -> None:
    words, body = STRANGE["amqp"][name]
    encoded = ProtonMessage(**{"body": body, "inferred": True, **words}).encode()

    with pytest.raises(UndecodableError):
        amqp_codec.decode(encoded, amqp_codec.AmqpOrigin(destination="orders", profile=AMQP_QUORUM))
