"""Messages: their fields, their identity, and their way through headers and JSON without loss."""

import copy
import math
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from history.errors import ConfigurationError
from history.identity import LONGEST
from history.message import HEADER_FIELDS, MOST_IN_PROPERTIES, Message, PropertyValue, Uuid
from history.store.parking import Parked, ParkedKind, parked_id, raw_fields

LONELY = "\ud800"  # half of a surrogate pair: JSON can say it, UTF-8 cannot

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def made(**fields: Any) -> Message:
    return Message.model_validate({"body": b"", **fields})


@pytest.mark.parametrize("headers", [None, "uuid", 5, [("uuid", "a")]])
def test_headers_that_are_not_a_mapping_are_refused_by_name(headers: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Message.from_headers(headers, b"")

    assert caught.value.setting == "headers"


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"body": {"at": NOON}}, ("body",)),
        ({"body": object()}, ("body",)),
        ({"body": {1: 2}}, ("body",)),
        ({"body": (1, 2)}, ("body",)),
        ({"body": {1}}, ("body",)),
        ({"properties": {"tags": ["a"]}}, ("properties", "tags")),
    ],
    ids=["a time within", "an object", "a number as key", "a tuple", "a set", "a list as property"],
)
def test_a_value_that_no_message_can_have_is_one_error_at_its_field(
    fields: dict[str, Any], where: tuple[str, ...]
) -> None:
    with pytest.raises(ValidationError) as refused:
        made(**fields)

    assert [error["loc"] for error in refused.value.errors()] == [where]


class TestIdentity:
    def test_the_property_uuid_comes_before_the_message_id(self) -> None:
        assert made(uuid="u-1", message_id="ID:1").uuid == "u-1"
        assert made(properties={"uuid": "u-1"}, message_id="ID:1").uuid == "u-1"

    def test_the_message_id_stands_in_for_an_absent_uuid(self) -> None:
        message = made(message_id="ID:1", properties={"uuid": None})

        assert (message.uuid, message.message_id) == ("ID:1", "ID:1")

    def test_without_either_there_is_no_identity(self) -> None:
        assert made().uuid is None

    def test_the_field_and_the_property_are_one(self) -> None:
        assert made(uuid="u-1").properties == {"uuid": "u-1"}
        assert made(uuid="u-1", properties={"uuid": "u-1", "shop": "rome"}).uuid == "u-1"

    def test_two_different_uuids_are_refused(self) -> None:
        with pytest.raises(ValidationError, match="differ; give one of them"):
            made(uuid="u-1", properties={"uuid": "u-2"})

    @pytest.mark.parametrize(
        "fields",
        [
            {"uuid": "", "message_id": "ID:1"},
            {"properties": {"uuid": "", "shop": "rome"}, "message_id": "ID:1"},
            {"uuid": "", "properties": {"uuid": ""}, "message_id": "ID:1"},
            {"uuid": "ID:1", "message_id": ""},
            {"uuid": "ID:1", "properties": {"uuid": ""}},
            {"uuid": "", "properties": {"uuid": "ID:1"}},
        ],
    )
    def test_an_empty_identity_is_none_where_there_is_another_one(self, fields: dict[str, Any]) -> None:
        message = made(**fields)

        assert message.uuid == "ID:1"
        assert message.properties.get("uuid") in {None, "ID:1"}
        assert Message.from_json(message.to_json()) == message

    def test_an_empty_uuid_among_the_headers_falls_back_to_the_message_id(self) -> None:
        assert Message.from_headers({"uuid": "", "JMSMessageID": "ID:1"}, b"").uuid == "ID:1"

    @pytest.mark.parametrize("fields", [{"uuid": ""}, {"message_id": ""}, {"properties": {"uuid": ""}}])
    def test_an_empty_identity_is_refused_for_it_would_make_duplicates(self, fields: dict[str, Any]) -> None:
        with pytest.raises(ValidationError, match="an empty identity would make every such message a dup"):
            made(**fields)

    @pytest.mark.parametrize("value", [b"x", 7, UUID(int=1)])
    def test_a_message_id_has_the_same_form_as_a_uuid(self, value: object) -> None:
        message = made(message_id=value)

        assert message.uuid == message.message_id == made(uuid=value).uuid
        assert Message.from_headers({"JMSMessageID": value}, b"").uuid == message.uuid

    @pytest.mark.parametrize("value", ["", b"", True, 7.0])
    def test_the_error_about_a_message_id_names_only_the_message_id(self, value: object) -> None:
        with pytest.raises(ValidationError) as refused:
            made(message_id=value)

        assert [error["loc"] for error in refused.value.errors()] == [("message_id",)]


class TestLargeNumbers:
    """By default, Python neither writes nor reads an integer with more than 4,300 digits."""

    @pytest.mark.parametrize(
        "fields",
        [{"body": 10**5000}, {"body": {"a": [1, {"b": -(10**5000)}]}}, {"properties": {"total": 10**5000}}],
        ids=["body", "in a list of the body", "property"],
    )
    def test_one_that_nobody_could_read_is_refused(self, fields: Any) -> None:
        with pytest.raises(ValidationError) as refused:
            made(**fields)

        assert [error["loc"][0] for error in refused.value.errors()] == list(fields)

    def test_a_number_of_4300_digits_comes_back(self) -> None:
        message = made(body={"a": 10**4299})

        assert Message.from_json(message.to_json()) == message


class TestDeliveryCount:
    @pytest.mark.parametrize("count", [-1, 1, 2, 100, 10**9])
    def test_a_count_from_one_or_minus_one_is_a_delivery_count(self, count: int) -> None:
        assert made(delivery_count=count).delivery_count == count

    @pytest.mark.parametrize("count", [0, -2, True, False, "3", 2.0, 1.5, None, math.nan])
    def test_anything_else_is_refused(self, count: object) -> None:
        with pytest.raises(ValidationError, match="must be 1 or more, or -1"):
            made(delivery_count=count)

    @pytest.mark.parametrize(("count", "expected"), [("3", 3), ("-1", -1), (7, 7), (None, -1)])
    def test_a_header_may_give_it_as_text(self, count: object, expected: int) -> None:
        assert Message.from_headers({"JMSXDeliveryCount": count}, b"").delivery_count == expected

    @pytest.mark.parametrize("count", ["0", "-2", "two", "2.0", "", " 1", "²", "٣", "9" * 5000, True])
    def test_a_header_that_is_no_count_is_refused(self, count: object) -> None:
        with pytest.raises(ValidationError, match="must be 1 or more"):
            Message.from_headers({"JMSXDeliveryCount": count}, b"")


class TestFields:
    def test_a_message_cannot_be_changed(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            made().body = b"other"  # type: ignore[misc]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"colour": "red"},
            *({"priority": priority} for priority in (-1, 10, "high")),
            *({name: NOON.replace(tzinfo=None)} for name in ("timestamp", "expiration", "delivery_time")),
        ],
        ids=str,
    )
    def test_what_a_field_cannot_be_is_refused_by_its_name(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            made(**wrong)

    @pytest.mark.parametrize(
        "body",
        [b"", b"\xff", "", "text", None, 0, False, True, 1.5, [], {}, {"a": [1, None]}, LONELY, 10**40],
    )
    def test_a_body_stays_what_it_is(self, body: Any) -> None:
        message = Message(body=body)

        assert message.body == body
        assert type(message.body) is type(body)

    @pytest.mark.parametrize(
        ("body", "size"),
        [(b"abc", 3), ("äb", 3), (LONELY, 3), ([1, 2], 5), ({"a": "ä"}, 10), ({"a": LONELY}, 11), (None, 4)],
    )
    def test_the_size_of_a_body_is_in_bytes(self, body: Any, size: int) -> None:
        assert Message(body=body).body_size() == size


class TestHeaders:
    def test_jms_names_fill_fields_and_all_others_are_properties(self) -> None:
        message = Message.from_headers(
            {
                "JMSMessageID": "ID:1",
                "JMSXDeliveryCount": "2",
                "JMSRedelivered": "true",
                "JMSDeliveryMode": "NON_PERSISTENT",
                "JMSCorrelationID": "c",
                "JMSType": "order",
                "JMSDestination": "orders",
                "JMSReplyTo": "replies",
                "JMSPriority": "9",
                "JMSTimestamp": "1714564800000",
                "JMSExpiration": 1714564800001,
                "JMSDeliveryTime": "1714564800002",
                "JMSXGroupID": "g",
                "JMSXGroupSeq": "3",
                "uuid": "u-1",
                "shop": "rome",
            },
            "body",
        )

        assert message == Message(
            body="body",
            uuid=Uuid("u-1"),
            message_id="ID:1",
            delivery_count=2,
            redelivered=True,
            persistent=False,
            correlation_id="c",
            type="order",
            destination="orders",
            reply_to="replies",
            priority=9,
            timestamp=NOON,
            expiration=NOON + timedelta(milliseconds=1),
            delivery_time=NOON + timedelta(milliseconds=2),
            group_id="g",
            group_sequence=3,
            properties={"shop": "rome"},
        )

    @pytest.mark.parametrize("zero", [0, "0", None], ids=["number", "text", "none"])
    def test_an_expiration_or_a_delivery_time_of_0_means_none(self, zero: object) -> None:
        message = Message.from_headers({"JMSExpiration": zero, "JMSDeliveryTime": zero}, b"")

        assert (message.expiration, message.delivery_time) == (None, None)

    @pytest.mark.parametrize(
        ("mode", "persistent"),
        [(1, False), (2, True), ("1", False), ("2", True), ("PERSISTENT", True), (False, False)],
    )
    def test_a_delivery_mode_comes_in_every_form_of_jms(self, mode: object, persistent: bool) -> None:  # noqa: FBT001
        assert Message.from_headers({"JMSDeliveryMode": mode}, b"").persistent is persistent

    @pytest.mark.parametrize(
        ("header", "value", "field"),
        [
            ("JMSTimestamp", 2**63 - 1, "timestamp"),
            ("JMSTimestamp", str(2**63 - 1), "timestamp"),
            ("JMSTimestamp", -(10**17), "timestamp"),
            ("JMSTimestamp", "9" * 5000, "timestamp"),
            ("JMSExpiration", 2**63 - 1, "expiration"),
            ("JMSPriority", "9" * 5000, "priority"),
            ("JMSXGroupSeq", "-", "group_sequence"),
            ("JMSDeliveryMode", 3, "persistent"),
        ],
    )
    def test_a_header_that_makes_no_sense_is_refused_by_the_name_of_its_field(
        self, header: str, value: object, field: str
    ) -> None:
        with pytest.raises(ValidationError, match=field):
            Message.from_headers({header: value}, b"")

    def test_absent_headers_are_left_out(self) -> None:
        assert made(properties={"shop": "rome"}).headers() == {
            "shop": "rome",
            "JMSRedelivered": False,
            "JMSDeliveryMode": 2,
            "JMSPriority": 4,
        }

    def test_a_property_under_a_headers_name_is_not_read_back_as_the_header(self) -> None:
        message = made(properties={"JMSMessageID": "ID:other", "JMSXDeliveryCount": 0})

        again = Message.from_json(message.to_json())

        assert (again.uuid, again.message_id, again.delivery_count) == (None, None, -1)


TEXT = st.text(st.characters(), max_size=8)  # with lone surrogates
IDENTITY = st.none() | st.text(st.characters(), min_size=1, max_size=8)
NAMES = TEXT.filter(lambda name: name not in HEADER_FIELDS)
PROPERTY: st.SearchStrategy[PropertyValue] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
INSTANTS = st.none() | st.integers(-(10**12), 10**13).map(
    lambda milliseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
)
MESSAGES = st.builds(
    Message,
    body=st.binary(max_size=20) | TEXT | JSON,
    uuid=IDENTITY,
    message_id=IDENTITY,
    delivery_count=st.just(-1) | st.integers(1, 1000),
    redelivered=st.booleans(),
    persistent=st.booleans(),
    correlation_id=st.none() | TEXT,
    type=st.none() | TEXT,
    destination=st.none() | TEXT,
    reply_to=st.none() | TEXT,
    priority=st.integers(0, 9),
    timestamp=INSTANTS,
    expiration=INSTANTS.filter(lambda instant: instant is None or instant.timestamp() != 0),
    delivery_time=INSTANTS.filter(lambda instant: instant is None or instant.timestamp() != 0),
    group_id=st.none() | TEXT,
    group_sequence=st.none() | st.integers(),
    properties=st.dictionaries(NAMES, PROPERTY, max_size=3),
)


@given(MESSAGES)
def test_every_message_comes_back_whole_from_its_json(message: Message) -> None:
    again = Message.from_json(message.to_json())

    assert again == message
    assert type(again.body) is type(message.body)


@given(MESSAGES)
def test_every_message_comes_back_whole_from_its_headers(message: Message) -> None:
    assert Message.from_headers(message.headers(), message.body) == message


@given(MESSAGES, TEXT)
def test_every_message_can_be_parked_whole_whatever_was_said_of_it(message: Message, said: str) -> None:
    parked = Parked(
        id=parked_id("book", message),
        trigger_name="book",
        kind=ParkedKind.IN_DOUBT,
        reason=said,
        uuid=message.uuid,
        destination=message.destination,
        message=message,
        error_class=said,
        error_message=said,
    )

    again = Parked.model_validate_json(parked.model_dump_json())

    assert (again, again.message) == (parked, message)


def test_a_document_that_was_sent_twice_is_parked_in_one_place() -> None:
    first, second = (made(uuid="u-1", message_id=message_id) for message_id in ("ID:1", "ID:2"))

    assert parked_id("book", first) == parked_id("book", second)
    assert parked_id("book", first) != parked_id("bill", first)
    assert parked_id("book", made(message_id="ID:1")) != parked_id("book", made(message_id="ID:2"))


@pytest.mark.parametrize(
    "changed",
    [
        {"body": {"amount": 99, "to": "me"}},
        {"body": b'{"amount":10,"to":"you"}'},
        {"body": '{"amount":10,"to":"you"}'},
        {"properties": {"account": "another"}},
        {"uuid": "u-2"},
    ],
)
def test_a_message_never_takes_the_place_of_another_one(changed: dict[str, Any]) -> None:
    payment = {"uuid": "u-1", "message_id": "ID:1", "body": {"amount": 10, "to": "you"}}

    assert parked_id("pay", made(**payment)) != parked_id("pay", made(**(payment | changed)))


@pytest.mark.parametrize(
    "changed",
    [
        {"body": {"to": "you", "amount": 10}},
        {"delivery_count": 7, "redelivered": True, "expiration": NOON},
        {"properties": {"JMSXGroupSeq": 3, "JMS_AMQP_TTL": 5, "x-delivery-count": 2, "x-opt-offset": 4}},
    ],
)
def test_what_a_provider_says_of_a_delivery_makes_no_other_message(changed: dict[str, Any]) -> None:
    payment = {"uuid": "u-1", "message_id": "ID:1", "body": {"amount": 10, "to": "you"}}

    assert parked_id("pay", made(**payment)) == parked_id("pay", made(**(payment | changed)))


def test_messages_without_identity_are_parked_by_what_they_hold() -> None:
    assert parked_id("book", Message(body="a")) == parked_id("book", Message(body="a"))
    assert parked_id("book", Message(body="a")) != parked_id("book", Message(body="b"))
    assert parked_id("book", Message(body="a")) != parked_id("book", Message(body="a"), delivery="2")


class TestProperties:
    @pytest.mark.parametrize(
        "change",
        [
            ("update", {"shop": "paris"}),
            ("__setitem__", "shop", "paris"),
            ("__delitem__", "shop"),
            ("__ior__", {"shop": "paris"}),
            ("pop", "shop"),
            ("popitem",),
            ("setdefault", "more", 1),
            ("clear",),
        ],
    )
    @pytest.mark.parametrize(
        "message",
        [
            made(properties={"shop": "rome"}),
            made().model_copy(update={"properties": {"shop": "rome"}}),
            copy.copy(made(properties={"shop": "rome"})),
            copy.deepcopy(made(properties={"shop": "rome"})),
            pickle.loads(pickle.dumps(made(properties={"shop": "rome"}))),  # noqa: S301
            Message.from_json(made(properties={"shop": "rome"}).to_json()),
            Message.model_validate_json(made(properties={"shop": "rome"}).model_dump_json()),
        ],
    )
    def test_they_cannot_be_changed(self, message: Message, change: tuple[Any, ...]) -> None:
        with pytest.raises(TypeError, match="a message is immutable: change a copy"):
            getattr(message.properties, change[0])(*change[1:])
        assert message.properties == {"shop": "rome"}

    def test_none_are_none(self) -> None:
        with pytest.raises(TypeError, match="immutable"):
            cast("dict[str, Any]", made().properties)["shop"] = "rome"
        assert made().properties == {}

    def test_a_copy_of_them_can_be_changed(self) -> None:
        assert {**made(properties={"shop": "rome"}).properties, "shop": "paris"} == {"shop": "paris"}


def test_the_fields_of_an_unreadable_delivery_are_kept_to_the_byte() -> None:
    assert raw_fields({b"body": b"caf\xc3\xa9", b"\xff": b"\xfe"}) == {
        "body": "café",
        "base64:/w==": "base64:/g==",
    }


#: Fields of a message, each with its greatest length, and one character longer.
LONG: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *(
        ({field: "x" * LONGEST}, {field: "x" * (LONGEST + 1)})
        for field in ("uuid", "message_id", "correlation_id", "type", "destination", "reply_to", "group_id")
    ),
    ({"properties": {"a": "x" * (MOST_IN_PROPERTIES - 1)}}, {"properties": {"a": "x" * MOST_IN_PROPERTIES}}),
    (
        {"properties": {f"{n:04}": "x" * (MOST_IN_PROPERTIES // 1024 - 4) for n in range(1024)}},
        {"properties": {f"{n:05}": "x" * (MOST_IN_PROPERTIES // 1024 - 4) for n in range(1024)}},
    ),
    ({"properties": {"uuid": "x" * LONGEST}}, {"properties": {"uuid": "x" * (LONGEST + 1)}}),
]


@pytest.mark.parametrize(("longest", "longer"), LONG, ids="-".join)
def test_what_is_too_long_around_a_body_is_refused(longest: dict[str, Any], longer: dict[str, Any]) -> None:
    assert Message(body="", **longest)
    with pytest.raises(ValidationError, match="character"):
        Message(body="", **longer)


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(ValidationError):
        Message.model_validate(cast("Any", "text"))
