"""Filters: the selector language, and places in the body."""

from datetime import UTC, datetime
from typing import Any

import pytest

from history.json_text import JsonText, NotJsonError, read_json
from history.message import Message
from triggers.selectors import Filter, Reading, SelectorError
from triggers.selectors.parsing import values as values_module

ORDER = b"""{"order": {"amount": 150, "customer": null, "odd key": 1, "it's": 2},
             "lines": [{"sku": "X"}, {"sku": "Y"}], "in": "Berlin", "paid": true}"""


TIME = datetime(2024, 5, 1, tzinfo=UTC)


def truth(text: str, body: Any = ORDER, **fields: Any) -> bool | None:
    return Filter.parse(text).evaluate(Reading(Message(body=body, **fields)))


class TestPlaces:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("body.order.amount > 100 AND body.lines[0].sku = 'X'", True),
            ("body.lines[1].sku IN ('X')", False),
            ("body.lines[2].sku = 'X'", None),
            ("body.lines[0x1].sku LIKE '_'", True),
            ("body.order['odd key'] = 1", True),
            ("body.order['it''s'] + body['order'].amount = 152", True),
            ("body.in = 'Berlin'", True),
            ("body.paid", True),
            ("NOT body.paid", False),
            ("body.order.customer IS NULL", True),
            ("body.order IS NOT NULL", True),
            ("body.order = 'x'", False),
            ("body.order = body.order", False),
            ("body.order.amount.more IS NULL", True),
            ("body.lines.sku IS NULL", True),
            ("body.order[0] IS NULL", True),
            ("body.Order IS NULL", True),
            ("body IS NOT NULL", True),
        ],
        ids=str,
    )
    def test_are_read_from_a_json_body(self, text: str, *, expected: bool | None) -> None:
        assert truth(text) is expected

    @pytest.mark.parametrize(
        "body", [b'{"a": {"b": 1}}', '{"a": {"b": 1}}', {"a": {"b": 1}}], ids=["bytes", "text", "value"]
    )
    def test_are_the_same_in_every_kind_of_body(self, body: Any) -> None:
        assert truth("body.a.b = 1", body) is True

    @pytest.mark.parametrize(
        "body", [b"", b"\xff", "no json", "\ud800", "[" * 100_000], ids=lambda body: ascii(body[:9])
    )
    def test_of_a_body_that_is_not_json_nothing_can_be_said(self, body: Any) -> None:
        with pytest.raises(NotJsonError):
            truth("body.a = 1", body)
        assert truth("JMSType IS NULL", body) is True

    @pytest.mark.parametrize("body", [None, b"null"], ids=ascii)
    def test_of_a_body_that_is_null_are_null(self, body: Any) -> None:
        assert truth("body IS NULL AND body.a IS NULL AND body[0] IS NULL", body) is True
        assert truth("body.a = 1", body) is None

    def test_of_a_scalar_body_are_null_but_the_body_is_there(self) -> None:
        assert truth("body = 7 AND body.a IS NULL AND body[0] IS NULL", b"7") is True

    def test_are_parsed_once_and_only_when_they_are_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        parsed: list[object] = []

        def note(body: bytes | str) -> JsonText:
            parsed.append(body)
            return read_json(body)

        monkeypatch.setattr(values_module, "read_json", note)
        reading = Reading(Message(body=ORDER, type="x"))

        Filter.parse("JMSType = 'y' AND body.paid").evaluate(reading)
        asked_in_vain = list(parsed)
        for text in ("body.paid OR body.in = 'Berlin'", "body.order.amount > 1"):
            Filter.parse(text).evaluate(reading)

        assert (asked_in_vain, parsed) == ([], [ORDER])


class TestNames:
    def test_properties_may_be_told_from_the_body(self) -> None:
        properties = {"region": "EU", "com.acme.id": 7, "body": 1, "AND": 2}

        assert truth("region = 'EU' AND properties.region = 'EU'", properties=properties) is True
        assert truth("properties['com.acme.id'] = 7", properties=properties) is True
        assert truth("properties.body = 1 AND properties.AND = 2", properties=properties) is True
        assert truth("properties.missing IS NULL") is True

    def test_a_filter_may_ask_for_every_header(self) -> None:
        message = {"destination": "orders", "reply_to": "replies", "redelivered": True, "delivery_time": TIME}

        assert truth("JMSDestination = 'orders' AND JMSReplyTo LIKE 'r%'", **message) is True
        assert truth("JMSDeliveryTime = 1714521600000", **message) is True
        assert truth("JMSRedelivered AND JMSExpiration IS NULL", **message) is True

    @pytest.mark.parametrize(
        ("text", "position", "expected"),
        [
            ("body. = 1", 6, "a name"),
            ("body.'a' = 1", 5, "a name"),
            ("body.1 = 1", 4, "a comparison"),
            ("body[-1] = 1", 5, "a number from 0"),
            ("body[1.5] = 1", 5, "a number from 0"),
            ("body[a] = 1", 5, "a number from 0"),
            ("body[0 = 1", 7, "]"),
            ("properties = 1", 0, "one name"),
            ("properties.a.b = 1", 0, "one name"),
            ("properties[0] = 1", 0, "one name"),
            ("region.a = 1", 6, "a comparison"),
            ("JMSPriorty = 1", 0, "JMSDestination"),
        ],
    )
    def test_an_error_names_the_place(self, text: str, position: int, expected: str) -> None:
        with pytest.raises(SelectorError, match=r"^filter: ") as caught:
            Filter.parse(text)

        assert caught.value.position == position
        assert expected in caught.value.expected
