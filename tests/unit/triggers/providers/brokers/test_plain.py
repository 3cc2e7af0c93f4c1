"""The fast path builds the same message as validation does, or leaves the message to validation."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from history.json_text import read_json
from history.message import HEADER_FIELDS, MOST_IN_PROPERTIES, Message
from triggers.providers.brokers.plain import plain

_TEXTS = st.text() | st.text(st.characters(categories=["Cs", "Lu"])) | st.sampled_from(["", "x" * 16_385])
_NUMBERS = st.integers() | st.integers(-2, 5) | st.floats() | st.booleans()
_HEADERS = st.dictionaries(
    _TEXTS | st.sampled_from(sorted(HEADER_FIELDS)),
    _TEXTS | _NUMBERS | _NUMBERS.map(str) | st.none() | st.binary() | st.datetimes(),
    max_size=8,
)
_BODIES = (
    st.binary()
    | _TEXTS
    | st.none()
    | st.sampled_from(['{"a": [1, 2.50]}', "[]", "5", '"t"', '{"\\ud800": NaN}', "[1e999]"]).map(read_json)
)


def _as_validated(headers: dict[str, Any], body: Any) -> Message | None:
    try:
        return Message.from_headers(headers, body)
    except (ValidationError, ValueError, OverflowError):
        return None


def _all_of(message: Message) -> tuple[object, ...]:
    # As texts, because NaN does not equal itself.
    values = [(name, type(value).__name__, repr(value)) for name, value in message]
    return values, message.model_fields_set, message.received, message.model_extra


@given(_HEADERS, _BODIES)
@example({"uuid": "u", "a": "1"}, b"x")
@example({"JMSMessageID": "m", "JMSTimestamp": 2**62}, "text")
def test_it_is_the_same_message_as_with_validation(headers: dict[str, Any], body: Any) -> None:
    found = plain(headers, body)

    if found is not None:
        validated = _as_validated(headers, body)
        assert validated is not None
        assert _all_of(found) == _all_of(validated)


@pytest.mark.parametrize("body", [b"x", "ü", read_json('{"a": 5}')], ids=["bytes", "text", "json"])
def test_the_usual_message_needs_no_validation(body: Any) -> None:
    headers = {
        "JMSMessageID": "m",
        "JMSTimestamp": 5,
        "JMSExpiration": "1700000000123",
        "JMSDeliveryMode": 2,
        "JMSXDeliveryCount": 2,
        "JMSRedelivered": True,
        "JMSDestination": "orders",
        "JMSXGroupID": "grün",
        "uuid": "u",
        "region": "EU",
    }

    found = plain(headers, body)

    assert found is not None
    assert _all_of(found) == _all_of(Message.from_headers(headers, body))
    assert found == found.copied() == Message.from_json(found.to_json())
    with pytest.raises(TypeError):
        found.properties["region"] = "US"  # type: ignore[index]


@pytest.mark.parametrize(
    "headers",
    [
        {"uuid": ""},
        {"uuid": "\ud800"},
        {"uuid": "x" * 16_385},
        {"a": "x" * (MOST_IN_PROPERTIES + 1)},
        {"JMSXDeliveryCount": 0},
        {"JMSXDeliveryCount": True},
        {"JMSTimestamp": 2**62},
    ],
    ids=["empty", "half a character", "long", "long property", "no count", "a bool", "no instant"],
)
def test_what_may_be_wrong_is_left_to_validation(headers: dict[str, Any]) -> None:
    assert plain({"uuid": "u", **headers}, b"x") is None


_OWN = {
    "message_id": "ID:topic:0:5",
    "destination": "topic",
    "delivery_count": 3,
    "redelivered": True,
    "timestamp": datetime(2026, 1, 2, tzinfo=UTC),
}


@given(_HEADERS, _BODIES, st.sets(st.sampled_from(sorted(_OWN))))
@example({"JMSMessageID": None, "JMSTimestamp": "0"}, b"x", set(_OWN))
@example({"uuid": "u", "JMSDestination": "elsewhere"}, b"x", set(_OWN))
def test_a_header_replaces_what_the_provider_knows(
    headers: dict[str, Any], body: Any, names: set[str]
) -> None:
    own = {name: _OWN[name] for name in names}
    headers_of = {field: header for header, field in HEADER_FIELDS.items()}

    made = plain(headers, body, own)

    if made is not None:
        validated = _as_validated({headers_of[name]: own[name] for name in own} | headers, body)
        assert validated is not None
        assert _all_of(made) == _all_of(validated)
