"""A producer makes a message from a body and options, before it sends anything."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from history import ConfigurationError, Message
from triggers.providers.outgoing import compose, compose_reply, correlation_of


class Order(BaseModel):
    id: str
    due: datetime


def request(**fields: Any) -> Message:
    told: dict[str, Any] = {"uuid": "r-1", "reply_to": "answers", **fields}
    return Message(body="?", **told)


def test_a_message_without_a_uuid_gets_a_new_one_each_time() -> None:
    made = {compose("orders", "x").uuid for _ in range(100)}

    assert len(made) == 100
    assert None not in made


@pytest.mark.parametrize("uuid", ["order-17", "x" * 97, "x" * 16_384, "ü \N{SNOWMAN}"], ids=len)
def test_a_given_uuid_of_any_length_is_kept(uuid: str) -> None:
    message = compose("orders", "x", uuid=uuid)

    assert (message.uuid, message.properties["uuid"]) == (uuid, uuid)


def test_every_option_fills_its_header() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    headers: dict[str, Any] = {
        "uuid": "u",
        "priority": 9,
        "correlation_id": "c",
        "reply_to": "answers",
        "type": "order",
        "group_id": "g",
        "group_sequence": 3,
        "persistent": False,
        "properties": {"shop": "rome"},
    }

    message = compose(
        "orders", {"id": 1}, time_to_live=timedelta(minutes=2), delay=timedelta(minutes=1), **headers
    )

    sent = message.timestamp
    assert sent is not None
    assert before <= sent <= datetime.now(UTC)
    times = {"timestamp": sent, "expiration": sent + timedelta(minutes=2)}
    assert message == Message(body={"id": 1}, delivery_time=sent + timedelta(minutes=1), **times, **headers)


def test_what_is_sent_is_what_arrives_though_jms_counts_in_milliseconds() -> None:
    message = compose("orders", "x", time_to_live=timedelta(seconds=1.0005), delay=timedelta(seconds=1))

    again = Message.from_json(message.to_json())

    assert (again.timestamp, again.delivery_time) == (message.timestamp, message.delivery_time)


def test_a_model_is_sent_as_json() -> None:
    message = compose("orders", Order(id="N-1", due=datetime(2024, 5, 1, tzinfo=UTC)))

    assert message.body == {"id": "N-1", "due": "2024-05-01T00:00:00Z"}


def test_a_message_that_is_passed_on_keeps_its_identity_and_headers_and_no_count() -> None:
    received = Message(
        body="x",
        message_id="ID:orders:1-0",
        delivery_count=3,
        redelivered=True,
        destination="orders",
        priority=7,
        correlation_id="c",
        properties={"shop": "rome"},
    )

    message = compose("billing", received, priority=None)

    assert (message.uuid, message.properties) == ("ID:orders:1-0", {"shop": "rome", "uuid": "ID:orders:1-0"})
    assert (message.priority, message.correlation_id) == (7, "c")
    assert (message.delivery_count, message.redelivered, message.destination) == (-1, False, None)


def test_an_option_wins_over_the_message() -> None:
    given = Message(body="x", uuid="old", priority=7, properties={"shop": "rome", "lane": 1})

    message = compose("orders", given, uuid="new", priority=1, properties={"lane": 2})

    assert (message.uuid, message.priority) == ("new", 1)
    assert message.properties == {"shop": "rome", "lane": 2, "uuid": "new"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"uuid": ""}, "uuid"),
        ({"priority": 10}, "priority"),
        ({"time_to_live": timedelta(0)}, "time_to_live"),
        ({"time_to_live": 60}, "time_to_live"),
        ({"time_to_live": timedelta.max}, "time_to_live"),
        ({"delay": timedelta(seconds=-1)}, "delay"),
        ({"delay": timedelta(seconds=2), "time_to_live": timedelta(seconds=2)}, "delay"),
        ({"uuid": "a", "properties": {"uuid": "b"}}, "uuid"),
    ],
    ids=str,
)
def test_what_cannot_be_sent_is_refused_by_the_name_of_its_option(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{told}: "):
        compose("orders", "x", **options)


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("uid", "use uuid"),
        ("prioritty", "use priority"),
        ("customer", "put your own values into properties={...}"),
    ],
)
def test_an_unknown_option_is_refused_with_the_remedy(option: str, remedy: str) -> None:
    options: dict[str, Any] = {option: "x"}

    with pytest.raises(ConfigurationError) as refused:
        compose("orders", "x", **options)

    assert (refused.value.setting, refused.value.remedy) == (option, remedy)


@pytest.mark.parametrize("destination", ["a\ud800b", "queue://\udcff"])
def test_a_destination_with_half_a_character_is_refused_before_a_provider_or_a_queue_meets_it(
    destination: str,
) -> None:
    with pytest.raises(ConfigurationError, match=r"destination: .* half a character"):
        compose(destination, "x")


def test_an_empty_destination_and_a_body_that_is_no_json_are_refused() -> None:
    nothing: Any = object()

    with pytest.raises(ConfigurationError, match="destination"):
        compose("", "x")
    with pytest.raises(ConfigurationError, match="body"):
        compose("orders", nothing)


@given(st.text(st.characters(), min_size=1, max_size=8), st.text(st.characters(), min_size=1, max_size=8))
def test_a_reply_has_the_same_uuid_for_the_same_request_and_no_other(one: str, other: str) -> None:
    first, again = (compose_reply(request(uuid=one), "!").uuid for _ in range(2))
    second = compose_reply(request(uuid=other), "!").uuid

    assert first == again
    assert (first == second) == (one == other)
    assert first != one


@pytest.mark.parametrize(
    ("fields", "correlation"),
    [
        ({}, "r-1"),
        ({"correlation_id": "c"}, "r-1"),
        ({"uuid": None, "message_id": "ID:1"}, "ID:1"),
        ({"properties": {"wm_tag": "tag"}}, "tag"),
    ],
    ids=["uuid", "uuid before correlation id", "JMSMessageID", "wm_tag first"],
)
def test_a_reply_is_related_to_its_request(fields: dict[str, Any], correlation: str) -> None:
    message = compose_reply(request(**fields), {"ok": True}, priority=8)

    assert (message.correlation_id, message.priority) == (correlation, 8)
    assert correlation_of(request(**fields)) == correlation


def test_a_reply_to_somebody_who_does_not_wait_or_has_no_identity_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="JMSReplyTo"):
        compose_reply(request(reply_to=None), "!")
    with pytest.raises(ConfigurationError, match="uuid"):
        compose_reply(request(uuid=None), "!")
