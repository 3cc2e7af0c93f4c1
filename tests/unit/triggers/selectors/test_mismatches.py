"""A condition that compares a text with a number warns once for each name, and its result stays the same."""

import logging
from contextlib import closing
from threading import Barrier
from typing import Any

import pytest

from tests.fixtures.threads import in_threads
from triggers import Filter, Message, Selector, Status, trigger

LOGGER = "triggers.selectors.compiler"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


@pytest.mark.parametrize(
    ("condition", "name", "wanted"),
    [
        ("quantity > 5", "quantity", "a number"),
        ("quantity = 5", "quantity", "a number"),
        ("quantity <> 5", "quantity", "a number"),
        ("5 < quantity", "quantity", "a number"),
        ("quantity < -other", "quantity", "a number"),
        ("quantity < other", "quantity", "a number"),
        ("quantity = JMSPriority", "quantity", "a number"),
        ("quantity BETWEEN 1 AND 5", "quantity", "a number"),
        ("quantity NOT BETWEEN 1 AND 5", "quantity", "a number"),
        ("3 BETWEEN 1 AND quantity", "quantity", "a number"),
        ("quantity * 2 > other", "quantity", "a number"),
        ("-quantity = 5", "quantity", "a number"),
        ("NOT (quantity = 5)", "quantity", "a number"),
        ("other = 1 AND quantity = 5", "quantity", "a number"),
        ("urgent = TRUE", "urgent", "a condition"),
        ("urgent", "urgent", "a condition"),
    ],
)
def test_a_text_that_is_asked_for_a_number_or_a_truth_is_told_once(
    condition: str, name: str, wanted: str, caplog: pytest.LogCaptureFixture
) -> None:
    selector = Selector.parse(condition)

    for number in range(3):
        selector.matches(Message(body="", properties={"quantity": f"{number}", "urgent": "true", "other": 1}))

    (told,) = warnings(caplog)
    assert told.startswith(
        f"selector {condition!r}: {name} is text in this message, and the condition wants {wanted}"
    )
    assert f"Compare with text, such as {name} = '5'" in told
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize(
    ("condition", "properties"),
    [
        ("quantity > 5", {"quantity": 7}),
        ("quantity > 5", {"quantity": 7.5}),
        ("quantity > 5", {}),
        ("region = 'EU'", {"region": "EU"}),
        ("region = other", {"region": "EU", "other": "EU"}),
        ("region IN ('EU')", {"region": "US"}),
        ("region LIKE 'E%'", {"region": "US"}),
        ("region IS NULL OR quantity > 5", {"quantity": "7"}),
        ("urgent = TRUE", {"urgent": False}),
    ],
)
def test_what_is_comparable_is_not_told(
    condition: str, properties: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    Selector.parse(condition).matches(Message(body="", properties=properties))

    assert warnings(caplog) == []


def test_each_name_and_each_selector_is_told_of_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    message = Message(body="", properties={"a": "1", "b": "2"})
    first, second = Selector.parse("a > 0 OR b > 0"), Selector.parse("a > 0")

    for _ in range(2):
        first.matches(message)
        second.matches(message)

    assert [told.partition(" is text")[0] for told in warnings(caplog)] == [
        "selector 'a > 0 OR b > 0': a",
        "selector 'a > 0 OR b > 0': b",
        "selector 'a > 0': a",
    ]


def test_a_filter_names_places_of_the_body_and_other_properties(caplog: pytest.LogCaptureFixture) -> None:
    message = Message(body={"lines": [{"amount": "12"}]}, properties={"content-length": "9"})

    Filter.parse("body.lines[0].amount > 5 OR properties['content-length'] > 5").matches(message)

    body, header = warnings(caplog)
    assert "': body.lines[0].amount is text" in body.replace('"', "'")
    assert "properties['content-length'] is text" in header


def test_the_value_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    Selector.parse("card > 5").matches(Message(body="", properties={"card": "4111 1111"}))

    assert "4111" not in caplog.text


def test_threads_that_share_a_selector_tell_it_once(caplog: pytest.LogCaptureFixture) -> None:
    selector, begin = Selector.parse("a > 0"), Barrier(8)

    def ask() -> None:
        begin.wait()
        selector.matches(Message(body="", properties={"a": "1"}))

    in_threads(lambda _: ask(), range(8))

    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("option", ["selector", "filter"])
def test_a_trigger_warns_and_acknowledges_as_before(option: str, caplog: pytest.LogCaptureFixture) -> None:
    ran: list[bytes] = []
    options: dict[str, Any] = {option: "quantity > 5"}

    @trigger("orders", name="book", history=None, **options)
    def book(body: bytes) -> None:
        ran.append(body)

    with closing(book):
        passed_over = [
            book.handle(Message(body="x", uuid=uuid, properties={"quantity": "7"})) for uuid in "ab"
        ]
        taken = book.handle(Message(body="x", uuid="c", properties={"quantity": 7}))

    assert [one.executed for one in passed_over] == [False, False]
    assert [one.acknowledge for one in passed_over] == [True, True]
    assert (taken.status, len(ran)) == (Status.NEW, 1)
    assert len(warnings(caplog)) == 1
