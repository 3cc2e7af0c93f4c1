"""A message becomes a row without loss; a row that is not a message is refused with a reason."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.errors import ConfigurationError
from history.identity import LONGEST
from history.message import MOST_IN_PROPERTIES, Message
from triggers.providers.brokers.delivery import UndecodableError
from triggers.providers.sqljms.codec import COLUMNS, SMALL, decode, encode

INSTANTS = st.integers(0, 2 * 10**14).map(
    lambda ms: datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
MESSAGES = st.builds(
    Message,
    body=st.binary() | st.text() | JSON,
    uuid=st.none() | TEXTS,
    message_id=st.none() | TEXTS,
    correlation_id=st.none() | TEXTS,
    type=st.none() | TEXTS,
    reply_to=st.none() | TEXTS,
    persistent=st.booleans(),
    priority=st.integers(0, 9),
    timestamp=INSTANTS,
    expiration=st.none() | INSTANTS.filter(lambda instant: instant.year > 1970),
    delivery_time=st.none() | INSTANTS,
    group_id=st.none() | TEXTS,
    group_sequence=st.none() | st.integers(0, 2**31),
    properties=st.dictionaries(
        TEXTS.filter(lambda name: not name.startswith("JMS") and name != "uuid"),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        max_size=4,
    ),
)


def row_of(message: Message, **told: Any) -> Any:
    """Return the row that a claim would return."""
    row, properties = encode(message, 17, "orders")
    columns: Mapping[str, Any] = dict(zip(COLUMNS, row, strict=True))
    found = [[name, kind, value] for _, kind, name, value in properties] if properties else None
    return SimpleNamespace(**{**columns, "properties": found, "delivery_count": 3, **told})


@given(MESSAGES)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    name = message.message_id or "ID:17"
    told = {
        "message_id": name,
        "uuid": message.uuid or name,
        "destination": "orders",
        "delivery_count": 3,
        "redelivered": True,
    }

    assert decode(row_of(message)) == message.model_copy(update=told)


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1])
def test_a_body_has_one_place_or_none(size: int) -> None:
    row = row_of(Message(body=b"x" * size))

    assert (row.small_body is not None) == (0 < size <= SMALL)
    assert (row.large_body is not None) == (size > SMALL)


def test_nothing_is_delivered_before_its_time() -> None:
    due = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=1)

    assert row_of(Message(body="", delivery_time=due)).delivery_time % 1000 == 1


@pytest.mark.parametrize("field", ["correlation_id", "type", "uuid", "message_id", "destination", "reply_to"])
@pytest.mark.parametrize("text", ["a\0b", "\ud800"], ids=["NUL", "surrogate"])
def test_a_header_that_no_database_can_hold_is_refused(field: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        encode(Message(body="").model_copy(update={field: text}), 1, "orders")


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("msg_class", "StreamMessage", "StreamMessage"),
        ("msg_class", "ObjectMessage", "body"),
        ("priority", 12, "priority"),
        ("timestamp", 2**62, "instant"),
        ("properties", [["p", 5, "no number"]], "no property"),
        ("properties", [["p", 77, "x"]], "no property"),
        ("uuid", "u" * (LONGEST + 1), "characters"),
        ("correlation_id", "c" * (LONGEST + 1), "characters"),
        ("properties", [["JMSXGroupID", 8, "g" * (LONGEST + 1)]], "characters"),
        ("properties", [["p", 8, "x" * MOST_IN_PROPERTIES]], "characters"),
    ],
    ids=[
        *("class", "no JSON", "priority", "instant", "number", "type"),
        *("long uuid", "long header", "long group", "long property"),
    ],
)
def test_a_row_that_is_no_message_says_why(column: str, value: object, reason: str) -> None:
    with pytest.raises(UndecodableError, match=reason):
        decode(row_of(Message(body="{no json"), **{column: value}))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("uuid", "u" * LONGEST),
        ("correlation_id", "c" * LONGEST),
        ("properties", [["p", 8, "x" * (MOST_IN_PROPERTIES - len("p"))]]),
    ],
    ids=["uuid", "header", "property"],
)
def test_the_longest_that_a_message_may_have_is_one(column: str, value: object) -> None:
    assert decode(row_of(Message(body="x"), **{column: value})).body == "x"


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "ü" * 501], ids=["nul", "half surrogate", "long"])
def test_a_property_with_a_name_that_an_index_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        encode(Message(body="x", properties={name: 1}), 17, "orders")

    assert refused.value.setting == "message"
