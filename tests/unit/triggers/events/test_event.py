"""The content of retrieval failure events: as JSON, as a CloudEvent and in webMethods' words."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from history.message import Message, Uuid
from tests.unit.helpers.given_up import MESSAGE, event
from triggers.events import Cause, RetrievalFailureEvent

#: Each as RFC 3339, section 5.6 has it.
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

#: RFC 3986, appendix A: the characters that a URI reference may have.
URI_REFERENCE = re.compile(r"(%[0-9A-F]{2}|[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=])+")

#: RFC 2046, as far as one needs.
MEDIA_TYPE = re.compile(r"[a-z]+/[a-z+.\-]+")

UNREADABLE = event(delivery_count=-1, cause=Cause.UNREADABLE, message=None)

EVENTS = [
    pytest.param(event(), id="bytes"),
    pytest.param(event(message=Message(body={"id": [1, None]}, uuid="u")), id="json"),
    pytest.param(event(message=Message(body="grüße \udc80\0", message_id="ID:1")), id="text"),
    pytest.param(event("a b/<c> é", exception_class="a.B", exception_message="\0bad\udc80"), id="strange"),
    pytest.param(event(time=datetime(2024, 5, 1, tzinfo=UTC)), id="whole second"),
    pytest.param(
        event(time=datetime(1890, 5, 1, tzinfo=timezone(timedelta(minutes=17, seconds=30)))),
        id="local mean time",
    ),
    pytest.param(UNREADABLE, id="unreadable"),
]


class TestEvent:
    def test_it_comes_back_from_its_json_with_the_whole_message(self) -> None:
        told = event(exception_class="builtins.ValueError", exception_message="bad\udc80name")

        again = RetrievalFailureEvent.model_validate_json(told.model_dump_json())

        assert (again, again.message, again.exception_message) == (told, MESSAGE, "bad\\udc80name")

    def test_an_unreadable_delivery_has_no_message_and_no_uuid(self) -> None:
        again = RetrievalFailureEvent.model_validate_json(UNREADABLE.model_dump_json())

        assert again == UNREADABLE
        assert (again.message, again.uuid) == (None, None)

    def test_it_has_the_message_s_uuid_the_first_destination_and_the_time_of_now(self) -> None:
        before = datetime.now(UTC)

        told = event()

        assert (told.uuid, told.destination_index) == ("u-1", 0)
        assert before <= told.time <= datetime.now(UTC)
        with pytest.raises(ValidationError, match="frozen"):
            told.delivery_count = 2  # type: ignore[misc]
        with pytest.raises(ValidationError, match="time"):
            event(time=datetime(2024, 5, 1))  # noqa: DTZ001


class TestCloudEvent:
    """CloudEvents 1.0.2, sections 3.1 (types), 3.2 (required), 3.3 (optional attributes)."""

    @pytest.mark.parametrize("told", EVENTS)
    def test_it_keeps_to_the_specification_and_its_data_is_the_whole_event(
        self, told: RetrievalFailureEvent
    ) -> None:
        wire: dict[str, Any] = json.loads(told.to_cloudevent_json())

        again = RetrievalFailureEvent.model_validate(wire["data"])

        assert wire.keys() == {"specversion", "id", "source", "type", "time", "datacontenttype", "data"}
        assert (wire["specversion"], wire["type"]) == ("1.0", "doubtless.retrieval_failure.v1")
        assert re.fullmatch("[0-9a-f]{32}", wire["id"])
        assert URI_REFERENCE.fullmatch(wire["source"])
        assert RFC_3339.fullmatch(wire["time"])
        assert datetime.fromisoformat(wire["time"]) == told.time
        assert MEDIA_TYPE.fullmatch(wire["datacontenttype"])
        assert (again, again.to_cloudevent()["id"]) == (told, wire["id"])

    @pytest.mark.parametrize(
        "change",
        [
            {"time": datetime(2024, 5, 2, tzinfo=UTC)},
            {"delivery_count": 2},
            {"cause": Cause.FAILED_BEFORE},
            {"destination": "parcels"},
            {"message": Message(body=b"\xff", uuid=Uuid("u-2"))},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_another_event_has_another_id(self, change: dict[str, Any]) -> None:
        time = datetime(2024, 5, 1, tzinfo=UTC)

        told: dict[str, Any] = {"time": time, **change}
        assert event(**told).id != event(time=time).id

    def test_its_source_is_a_uri_whatever_the_trigger_is_called(self) -> None:
        assert event("a b/<c>").to_cloudevent()["source"] == "/doubtless/triggers/a%20b%2F%3Cc%3E"


class TestWebMethods:
    def test_the_seven_fields_have_the_names_and_forms_of_the_reference_system(self) -> None:
        sent = Message(body="b", uuid=Uuid("u-1"), message_id="ID:1", delivery_count=3, properties={"k": 1})
        told = event(
            time=datetime(2024, 5, 1, 2, 3, 4, 7_000, tzinfo=timezone(timedelta(hours=2))),
            delivery_count=3,
            exception_class="a.B",
            exception_message="no",
            message=sent,
        )

        assert told.to_jms_receive_error() == {
            "triggerName": "book",
            "triggerDestinationIndex": 0,
            "deliveryCount": 3,
            "time": "2024/05/01 00:03:04.07",
            "exceptionClass": "a.B",
            "exceptionMessage": "no",
            "data": {
                "JMSMessage": {
                    "header": {
                        "JMSMessageID": "ID:1",
                        "JMSDeliveryMode": 2,
                        "JMSPriority": 4,
                        "JMSRedelivered": False,
                    },
                    "properties": {"uuid": "u-1", "k": 1, "JMSXDeliveryCount": 3},
                    "body": {"string": "b"},
                }
            },
        }

    @pytest.mark.parametrize(
        ("microsecond", "fraction"), [(0, "00"), (7_999, "07"), (70_000, "70"), (700_000, "700")]
    )
    def test_the_milliseconds_have_two_digits_or_three(self, microsecond: int, fraction: str) -> None:
        told = event(time=datetime(2024, 5, 1, microsecond=microsecond, tzinfo=UTC))

        assert told.to_jms_receive_error()["time"] == f"2024/05/01 00:00:00.{fraction}"

    @pytest.mark.parametrize(
        ("body", "kind"), [(b"\xff", "bytes"), ("text", "string"), ({"id": 1}, "data"), (None, "data")]
    )
    def test_a_body_stands_under_its_kind(self, body: Any, kind: str) -> None:
        data = event(message=Message(body=body, uuid="u")).to_jms_receive_error()["data"]

        assert data["JMSMessage"]["body"] == {kind: body}

    def test_there_is_no_message_in_an_unreadable_delivery(self) -> None:
        assert UNREADABLE.to_jms_receive_error()["data"] == {}
