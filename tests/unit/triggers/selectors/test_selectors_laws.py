"""Every condition can be written and read back, and its logic has three values."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.json_text import NotJsonError
from history.message import Message
from tests.unit.triggers.selectors.conditions import conditions, messages, paths, unhurried
from triggers.selectors import Filter, Reading, Selector, SelectorError
from triggers.selectors.parsing.nodes import Node
from triggers.selectors.parsing.parser import parse
from triggers.selectors.selector import write

TRUTHS = {"TRUE": True, "FALSE": False, "unknown": None}
PAIRS = list(itertools.product(TRUTHS, repeat=2))


def truth(text: str, message: Message | None = None) -> bool | None:
    return Selector.parse(text).evaluate(Reading(message or Message(body="")))


class TestThreeValues:
    @pytest.mark.parametrize(("sign", "decides"), [("AND", False), ("OR", True)])
    @pytest.mark.parametrize(("left", "right"), PAIRS)
    def test_one_side_decides_and_or_the_unknown_leaves_it_open(
        self, left: str, right: str, sign: str, *, decides: bool
    ) -> None:
        both = {TRUTHS[left], TRUTHS[right]}

        expected = decides if decides in both else None if None in both else not decides

        assert truth(f"{left} {sign} {right}") is expected

    @pytest.mark.parametrize(
        ("text", "expected"), [("NOT TRUE", False), ("NOT FALSE", True), ("NOT unknown", None)]
    )
    def test_not_leaves_the_unknown_unknown(self, text: str, *, expected: bool | None) -> None:
        assert truth(text) is expected

    def test_not_holds_tighter_than_and_and_and_than_or(self) -> None:
        assert truth("TRUE OR TRUE AND FALSE") is True
        assert truth("(TRUE OR TRUE) AND FALSE") is False
        assert truth("NOT FALSE AND FALSE") is False
        assert truth("NOT (FALSE AND FALSE)") is True

    @unhurried
    @given(conditions(), conditions(), messages)
    def test_de_morgan_s_laws_hold(self, one: Node, other: Node, message: Message) -> None:
        a, b = f"({write(one)})", f"({write(other)})"

        assert truth(f"NOT ({a} AND {b})", message) is truth(f"NOT {a} OR NOT {b}", message)
        assert truth(f"NOT ({a} OR {b})", message) is truth(f"NOT {a} AND NOT {b}", message)
        assert truth(f"NOT NOT {a}", message) is truth(a, message)

    @unhurried
    @given(conditions(), messages)
    def test_what_is_unknown_does_not_match_and_neither_does_its_opposite(
        self, tree: Node, message: Message
    ) -> None:
        condition, opposite = Selector.parse(write(tree)), Selector.parse(f"NOT ({write(tree)})")

        matched = condition.matches(message), opposite.matches(message)

        unknown = condition.evaluate(Reading(message)) is None
        assert matched.count(True) == (0 if unknown else 1)


class TestRoundTrip:
    @unhurried
    @given(conditions())
    def test_a_selector_is_read_back_as_it_was_written(self, tree: Node) -> None:
        read = parse(write(tree))

        assert (read, repr(read)) == (tree, repr(tree))

    @unhurried
    @given(conditions(paths))
    def test_a_filter_is_read_back_as_it_was_written(self, tree: Node) -> None:
        read = parse(write(tree), paths=True)

        assert (read, repr(read)) == (tree, repr(tree))

    @unhurried
    @given(conditions(paths), messages)
    def test_a_filter_has_one_of_three_values_for_every_message(self, tree: Node, message: Message) -> None:
        try:
            truth = Filter.parse(write(tree)).evaluate(Reading(message))
        except NotJsonError:
            assert isinstance(message.body, bytes | str)
        else:
            assert truth in {True, False, None}


WORDS = "NOT AND OR BETWEEN LIKE IN IS NULL TRUE FALSE ESCAPE = <> <= < > >= + - * / ( ) , . [ ]"
THINGS = "a body properties JMSType 'x' '%' 1 2.5 0x1F 9223372036854775808 -- '' ' ! % =="


class TestAnyText:
    @unhurried
    @given(st.text())
    def test_is_a_condition_or_an_error(self, text: str) -> None:
        assert_read_or_refused(text)

    @unhurried
    @given(st.lists(st.sampled_from(f"{WORDS} {THINGS}".split()), max_size=30).map(" ".join))
    def test_of_the_language_s_words_is_a_condition_or_an_error(self, text: str) -> None:
        assert_read_or_refused(text)

    @unhurried
    @given(conditions(paths).map(write), st.data())
    def test_that_was_a_condition_once_is_one_or_an_error(self, text: str, data: Any) -> None:
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))

        assert_read_or_refused(text[:start] + data.draw(st.text(max_size=3)) + text[end:])


def assert_read_or_refused(text: str) -> None:
    message = Message(body=b'{"a": 1}', properties={"a": 1})
    for language in (Selector, Filter):
        place = 0
        try:
            condition = language.parse(text)
        except SelectorError as error:
            place = error.position
        else:
            assert condition.matches(message) in {True, False}
        assert 0 <= place <= len(text)
