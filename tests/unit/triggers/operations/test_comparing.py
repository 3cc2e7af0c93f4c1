"""The difference of two bodies."""

from typing import Any

import pytest

from history.json_text import MOST_NESTED, read_json
from history.message import Message
from triggers.operations.comparing import LARGEST, MOST_LINES, difference


def changes(first: Any, later: Any) -> list[str]:
    found = difference(_message(first), _message(later))
    assert found is not None
    return [line for line in found if not line.startswith((" ", "@@"))]


def _message(body: Any) -> Message:
    return body if isinstance(body, Message) else Message(body=body)


def received(text: str) -> Message:
    return Message.from_headers({"uuid": "u1"}, read_json(text))


@pytest.mark.parametrize(
    ("first", "later", "changed"),
    [
        ({"id": 1, "qty": 2}, {"qty": 3, "id": 1}, ['-  "qty": 2', '+  "qty": 3']),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": True}]}, ['-      "b": null', '+      "b": true']),
        ({"a": 1}, {"a": 1, "b": 2}, ['+  "b": 2']),
        (b'{"b": 1, "a": 2}', b'{"a": 2,"b": 1}', []),
        (b'{"a": 1}', '{"a": 2}', ['-  "a": 1', '+  "a": 2']),
        ({}, [], ["-{", "-}", "+[", "+]"]),
        ("one\ntwo", "one\nthree", ["-two", "+three"]),
        (b"one\xff", b"one\xfe", ["-one\\xff", "+one\\xfe"]),
        ({"größe": "注文"}, {"größe": "\ud800"}, ['-  "größe": "注文"', '+  "größe": "\ud800"']),
        ("", "text", ["-", "+text"]),
        (None, 0, ["-null", "+0"]),
        (b"\xef\xbb\xbf[1]", b"[2]", ["-  1", "+  2"]),
    ],
)
def test_the_changed_lines_of_two_bodies(first: Any, later: Any, changed: list[str]) -> None:
    assert changes(first, later) == changed


def test_no_digit_and_no_second_value_of_a_name_is_lost() -> None:
    exact = changes(received('{"a": 100200300400500.0123}'), received('{"a": 100200300400500.0124}'))
    twice = changes(received('{"a": 1, "a": 2}'), received('{"a": 3, "a": 2}'))

    assert exact == ['-  "a": 100200300400500.0123', '+  "a": 100200300400500.0124']
    assert twice == ['-  "a": 1', '+  "a": 3']


def test_bodies_that_are_too_large_are_not_compared() -> None:
    assert difference(Message(body="x" * (LARGEST + 1)), Message(body="x")) is None
    assert difference(Message(body="x"), Message(body="\n" * MOST_LINES)) is None


def test_json_that_is_nested_too_deeply_is_compared_as_text() -> None:
    deep = "[" * (MOST_NESTED + 2) + "]" * (MOST_NESTED + 2)
    as_deep_as_possible = "[" * MOST_NESTED + "]" * MOST_NESTED

    assert changes(deep.encode(), b"1") == [f"-{deep}", "+1"]
    assert len(changes(as_deep_as_possible.encode(), b"1")) == 2 * MOST_NESTED + 1
    assert changes(("[" * 30_000).encode(), b"1") == [f"-{'[' * 30_000}", "+1"]
