"""The selector language of the Jakarta Messaging specification, example by example."""

import copy
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from history import ConfigurationError, Message
from triggers.selectors import Reading, Selector, SelectorError
from triggers.selectors.parsing.parser import MAX_DEPTH

T, F, U = True, False, None


def truth(text: str, message: Message | None = None, /, **properties: Any) -> bool | None:
    asked = message or Message(body="", properties=properties)
    return Selector.parse(text).evaluate(Reading(asked))


class TestTheSpecification:
    @pytest.mark.parametrize(
        ("text", "name", "holds_for", "fails_for"),
        [
            ("age BETWEEN 15 AND 19", "age", [15, 19.0], [20]),
            ("age NOT BETWEEN 15 AND 19", "age", [20], [17]),
            ("Country IN ('UK', 'US', 'France')", "Country", ["UK"], ["Peru"]),
            ("Country NOT IN ('UK', 'US', 'France')", "Country", ["Peru"], ["UK"]),
            ("phone LIKE '12%3'", "phone", ["123", "12993"], ["1234"]),
            ("phone NOT LIKE '12%3'", "phone", ["1234"], ["123"]),
            ("word LIKE 'l_se'", "word", ["lose"], ["loose"]),
            (r"underscored LIKE '\_%' ESCAPE '\'", "underscored", ["_foo"], ["bar"]),
            ("NumberOfOrders > 1", "NumberOfOrders", [2], ["2"]),
            ("name = 'literal''s'", "name", ["literal's"], ["literals"]),
        ],
    )
    def test_its_examples_hold_and_are_unknown_without_their_property(
        self, text: str, name: str, holds_for: list[Any], fails_for: list[Any]
    ) -> None:
        assert [truth(text, **{name: value}) for value in holds_for] == [T] * len(holds_for)
        assert [truth(text, **{name: value}) for value in fails_for] == [F] * len(fails_for)
        assert truth(text) is U

    def test_only_what_is_not_there_is_null(self) -> None:
        assert [truth("prop_name IS NULL"), truth("prop_name IS NULL", prop_name="")] == [T, F]
        assert [truth("prop_name IS NOT NULL"), truth("prop_name IS NOT NULL", prop_name=0)] == [F, T]

    def test_the_car_is_selected(self) -> None:
        car = Selector.parse("JMSType = 'car' AND color = 'blue' AND weight > 2500")

        assert car.matches(Message(body="", type="car", properties={"color": "blue", "weight": 2501}))
        assert not car.matches(Message(body="", type="car", properties={"color": "blue", "weight": 2500}))
        assert not car.matches(Message(body="", properties={"color": "blue", "weight": 2501}))

    @pytest.mark.parametrize("text", ["", " \t\r\n\f"], ids=repr)
    def test_an_empty_selector_selects_everything(self, text: str) -> None:
        assert Selector.parse(text).matches(Message(body=""))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("JMSDeliveryMode = 'PERSISTENT'", T),
            ("JMSDeliveryMode <> 'NON_PERSISTENT'", T),
            ("JMSPriority = 7", T),
            ("JMSMessageID = 'ID:1'", T),
            ("JMSTimestamp = 1714521600000", T),
            ("JMSCorrelationID LIKE 'c-%'", T),
            ("JMSType IN ('order')", T),
            ("JMSXGroupID = 'g' AND JMSXGroupSeq = 3 AND JMSXDeliveryCount = 2", T),
            ("JMSXUserID IS NULL AND JMS_vendor_x IS NULL", T),
            ("jmspriority IS NULL", T),
            ("uuid = 'u-1'", T),
        ],
        ids=str,
    )
    def test_headers_are_selected_by_their_jms_names(self, text: str, *, expected: bool) -> None:
        message = Message(
            body="",
            uuid="u-1",
            message_id="ID:1",
            priority=7,
            timestamp=datetime(2024, 5, 1, tzinfo=UTC),
            correlation_id="c-1",
            type="order",
            group_id="g",
            group_sequence=3,
            delivery_count=2,
        )

        assert truth(text, message) is expected

    @pytest.mark.parametrize(
        "name",
        ["JMSMessageID", "JMSTimestamp", "JMSCorrelationID", "JMSType", "JMSXGroupID", "JMSXDeliveryCount"],
    )
    def test_a_header_that_is_not_there_is_null(self, name: str) -> None:
        assert truth(f"{name} IS NULL") is T

    def test_a_property_named_as_a_header_does_not_hide_it(self) -> None:
        assert truth("JMSPriority = 4", JMSPriority=9) is T


class TestValues:
    @pytest.mark.parametrize(
        ("left", "sign", "right", "expected"),
        [
            ("a", "=", "b", F),
            ("a", "<>", "b", T),
            ("a", "=", "a", T),
            (1, "=", 1.0, T),
            (1, "<>", 1.5, T),
            (1, "<", 1.5, T),
            (1, "=", "1", F),
            (1, "<>", "1", F),
            (True, "=", 1, F),
            (True, "<>", 1, F),
            (True, "=", True, T),
            (True, "<>", False, T),
            ("b", ">", "a", F),
            (True, ">", False, F),
            (None, "=", 1, U),
            (None, "=", None, U),
            (None, "<>", "a", U),
            (None, "<", 1, U),
            (2**53 + 1, "=", float(2**53), T),
            (float("nan"), "=", float("nan"), F),
            (float("nan"), "<>", 1.0, T),
            (10**400, ">", 1.5, T),
        ],
        ids=str,
    )
    def test_only_values_of_one_kind_are_compared(
        self, left: Any, sign: str, right: Any, *, expected: bool | None
    ) -> None:
        assert truth(f"l {sign} r", l=left, r=right) is expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("flag", T),
            ("NOT flag", F),
            ("flag = TRUE", T),
            ("flag <> false", T),
            ("number", F),
            ("nothing", U),
            ("NOT nothing", U),
            ("(number > 1) = TRUE", T),
            ("TRUE", T),
            ("FALSE", F),
            ("NOT number LIKE 'x'", U),
            ("number NOT LIKE 'x'", U),
            ("number NOT IN ('x')", U),
            ("word NOT BETWEEN 1 AND 2", F),
            ("NOT (word BETWEEN 1 AND 2)", T),
        ],
        ids=str,
    )
    def test_a_boolean_is_a_condition_and_nothing_else_is(self, text: str, *, expected: bool | None) -> None:
        assert truth(text, flag=True, number=7, word="w") is expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1 + 2 * 3 = 7", T),
            ("(1 + 2) * 3 = 9", T),
            ("10 - 4 - 3 = 3", T),
            ("12 / 3 / 2 = 2", T),
            ("7 / 2 = 3", T),
            ("-7 / 2 = -3", T),
            ("7 / -2 = -3", T),
            ("7 / 2.0 = 3.5", T),
            ("- a = -3 AND +a = 3 AND -(-a) = a AND --a = 3", T),
            ("a - -1 = 4", T),
            ("a * word = 1", U),
            ("-word = 1", U),
            ("NOT (word + 1 > 1)", U),
            ("flag + 1 = 2", U),
            ("1 / 0 = 1", U),
            ("1.0 / 0 > 9E99", T),
            ("-1.0 / 0 < -9E99", T),
            ("0.0 / 0 = 0.0 / 0", F),
            ("missing + 1 = 1", U),
            ("9223372036854775807 + 1 > 9223372036854775807", T),
            ("huge + 0.5 > 1", T),
            ("a BETWEEN 1 + 1 AND 2 * 2", T),
        ],
        ids=str,
    )
    def test_arithmetic_is_java_s(self, text: str, *, expected: bool | None) -> None:
        assert truth(text, a=3, word="w", flag=True, huge=10**400) is expected

    @pytest.mark.parametrize(
        ("literal", "value"),
        [
            ("57", 57),
            ("-957", -957),
            ("+62", 62),
            ("57L", 57),
            ("1_000", 1000),
            ("0x1F", 31),
            ("0Xff_ffL", 65535),
            ("0xFFFFFFFFFFFFFFFF", -1),
            ("017", 15),
            ("0", 0),
            ("0b101", 5),
            ("9223372036854775807", 2**63 - 1),
            ("-9223372036854775808", -(2**63)),
            ("7E3", 7000.0),
            ("-57.9E2", -5790.0),
            ("7.", 7.0),
            (".5", 0.5),
            ("-95.7", -95.7),
            ("+6.2", 6.2),
            ("1e-3d", 0.001),
            ("0.1F", 0.10000000149011612),
            ("09.5", 9.5),
            ("0x1.8p3", 12.0),
            ("5d", 5.0),
        ],
        ids=str,
    )
    def test_numbers_are_written_as_in_java(self, literal: str, value: float) -> None:
        selector = Selector.parse(f"n = {literal}")

        assert selector.matches(Message(body="", properties={"n": value}))
        assert isinstance(value, int) is ("." not in selector.canonical() and "e" not in selector.canonical())


class TestLike:
    @pytest.mark.parametrize(
        ("pattern", "texts", "others"),
        [
            ("", [""], ["a"]),
            ("%", ["", "a\nb"], []),
            ("_", ["\n"], [""]),
            ("a%", ["ab"], ["ba"]),
            ("%a", ["ba"], ["ab"]),
            ("%a%", ["bab"], ["b"]),
            ("a%a", ["aa"], ["a"]),
            ("%ab%ab", ["abab"], ["ab"]),
            ("%a_c%", ["xxabcxx"], ["ac"]),
            ("%%%", [""], []),
            ("%ab%bc%", ["abbc"], ["abc"]),
            ("a.c", ["a.c"], ["abc"]),
            ("[a]*", ["[a]*"], ["a"]),
            ("A", ["A"], ["a"]),
            ("_%_", ["ab"], ["a"]),
        ],
    )
    def test_a_pattern_fits_the_whole_text(self, pattern: str, texts: list[str], others: list[str]) -> None:
        assert [truth(f"t LIKE '{pattern}'", t=text) for text in texts] == [T] * len(texts)
        assert [truth(f"t LIKE '{pattern}'", t=text) for text in others] == [F] * len(others)

    @pytest.mark.parametrize(
        ("pattern", "escape", "text", "other"),
        [
            ("a!%", "!", "a%", "ab"),
            ("a!!", "!", "a!", "a!!"),
            ("a!_%", "!", "a_b", "aab"),
            ("%%", "%", "%", "x"),
            ("a''%", "''", "a%", "ab"),
        ],
    )
    def test_an_escaped_character_stands_for_itself(
        self, pattern: str, escape: str, text: str, other: str
    ) -> None:
        assert truth(f"t LIKE '{pattern}' ESCAPE '{escape}'", t=text) is T
        assert truth(f"t LIKE '{pattern}' ESCAPE '{escape}'", t=other) is F

    @pytest.mark.timeout(20)
    def test_no_pattern_takes_forever(self) -> None:
        assert truth(f"t LIKE '{'%a' * 50}%b'", t="a" * 20_000) is F
        assert truth(f"t LIKE '{'%_' * 50}b'", t="a" * 20_000) is F


class TestNames:
    def test_identifiers_are_case_sensitive_and_keywords_are_not(self) -> None:
        assert truth("Region = 'EU' anD rEgion iS nUll", Region="EU") is T

    @pytest.mark.parametrize(
        "name", ["_a", "$a", "a1$_", "prénom", "数", "€uro", "i\u017f", "body", "properties"]
    )
    def test_a_name_is_java_s(self, name: str) -> None:
        assert truth(f"{name} = 1", **{name: 1}) is T

    @pytest.mark.parametrize("name", ["1a", "a#b", "a.b", "²", "", "AND", "null"])
    def test_what_is_no_name_of_java_is_refused(self, name: str) -> None:
        with pytest.raises(SelectorError):
            Selector.parse(f"{name} = 'x'")


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "position", "expected"),
        [
            ("a =", 3, "a header, a property, a literal or ("),
            ("a = 'x", 4, "a ' after it"),
            ("a = NULL", 4, "IS NULL"),
            ("a == 1", 2, "="),
            ("a != 1", 2, "<>"),
            ('a = "x"', 4, "single quotes"),
            ("a < 'x'", 4, "a number"),
            ("TRUE > FALSE", 0, "a number"),
            ("a BETWEEN 'a' AND 'b'", 10, "a number"),
            ("a BETWEEN 1 OR 2", 12, "AND"),
            ("1 < x < 3", 6, "AND, OR or the end"),
            ("a = b = c", 6, "AND, OR or the end"),
            ("a = NOT b", 4, "a header"),
            ("a NOT b", 6, "IN, LIKE or BETWEEN"),
            ("a IS 5", 5, "NULL"),
            ("a IN ()", 6, "a text in quotes"),
            ("a IN (1)", 6, "a text in quotes"),
            ("a IN ('x' 'y')", 10, ", or )"),
            ("'a' IN ('a')", 0, "a header or property"),
            ("a + 1 IS NULL", 0, "a header or property"),
            ("a LIKE b", 7, "a pattern in quotes"),
            ("a LIKE 'x' ESCAPE 'yz'", 18, "one character"),
            ("a LIKE 'x' ESCAPE ''", 18, "one character"),
            ("a LIKE 'x!y' ESCAPE '!'", 7, "%, _ or itself"),
            ("a LIKE 'x!' ESCAPE '!'", 7, "%, _ or itself"),
            ("JMSPriorty = 4", 0, "JMSPriority"),
            ("JMSExpiration > 4", 0, "JMSTimestamp"),
            ("a = 09", 4, "Java"),
            ("a = 1x", 4, "Java"),
            ("a = 0x", 4, "Java"),
            ("a = 9223372036854775808", 4, "Java"),
            ("a = 1e999", 4, "Java"),
            ("a = 1e99F", 4, "Java"),
            ("a = 0x1FFFFFFFFFFFFFFFF", 4, "Java"),
            ("5", 0, "a condition"),
            ("'a'", 0, "a condition"),
            ("a AND 5", 6, "a condition"),
            ("NOT 'a'", 4, "a condition"),
            ("a + 1", 0, "a condition"),
            ("JMSType", 0, "a condition"),
            ("a b", 2, "a comparison"),
            ("a = 1 b", 6, "AND, OR or the end"),
            ("(a = 1", 6, ")"),
            ("a = 1)", 5, "AND, OR or the end"),
            ("a AND", 5, "a header"),
            ("a = 1 /* no */", 7, "a header"),
            ("a ~ 1", 2, "a condition"),
            ("body.x = 1", 4, "filter="),
        ],
    )
    def test_an_error_names_the_place_and_what_was_expected(
        self, text: str, position: int, expected: str
    ) -> None:
        with pytest.raises(SelectorError) as caught:
            Selector.parse(text)

        assert caught.value.position == position
        assert expected in caught.value.expected
        assert str(caught.value).startswith("selector: ")
        assert f"at character {position + 1}; expected " in str(caught.value)

    @pytest.mark.parametrize(
        "text",
        [
            "(" * 10_000 + "a = 1" + ")" * 10_000,
            "NOT " * 10_000 + "a",
            "a = " + "-" * 10_000 + "b",
            "a = " + "(b = " * 10_000,
            "(a OR " * 10_000,
        ],
        ids=["parentheses", "not", "signs", "comparisons", "or"],
    )
    def test_what_nests_too_deep_is_refused(self, text: str) -> None:
        with pytest.raises(SelectorError, match=rf"nests too deep .* at most {MAX_DEPTH} levels"):
            Selector.parse(text)

    def test_what_is_long_is_not_deep(self) -> None:
        assert truth(" OR ".join(["a = 1"] * 10_000), a=1) is T
        assert truth(" AND ".join(["a = 1"] * 10_000), a=1) is T
        assert truth(f"a = {'+'.join(['1'] * 10_000)}", a=10_000) is T
        values = ", ".join(f"'{n}'" for n in range(10_000))
        assert truth(f"a IN ({values})", a="9999") is T

    def test_what_is_as_deep_as_may_be_is_read(self) -> None:
        depth = MAX_DEPTH - 2  # the condition itself, and its number

        assert truth("(" * depth + "a = 1" + ")" * depth, a=1) is T
        assert truth("NOT " * depth + "a = 1", a=1) is T

    @pytest.mark.parametrize("text", [None, 5, b"a = 1"], ids=repr)
    def test_what_is_no_text_is_refused(self, text: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"selector: must be text, not"):
            Selector.parse(text)


class TestASelector:
    def test_is_its_text(self) -> None:
        selector = Selector.parse("a  =  1")

        assert str(selector) == "a  =  1"
        assert selector == Selector.parse("a  =  1")
        assert (selector.canonical(), repr(selector)) == ("a = 1", "Selector(text='a  =  1')")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("((a=1))and(not(b>(1+2)))or c", "a = 1 AND NOT b > 1 + 2 OR c"),
            ("(a OR b) AND (c OR (d AND e))", "(a OR b) AND (c OR d AND e)"),
            ("NOT (NOT (a))", "NOT NOT a"),
            ("NOT (a AND b)", "NOT (a AND b)"),
            ("(a AND b) AND c", "(a AND b) AND c"),
            ("(1 - (2 - 3)) * -(x) = -(-y)", "(1 - (2 - 3)) * -x = -(-y)"),
            ("0x10 = 1e3 AND note LIKE 'it''s'", "16 = 1000.0 AND note LIKE 'it''s'"),
        ],
        ids=str,
    )
    def test_has_one_canonical_spelling(self, text: str, expected: str) -> None:
        assert Selector.parse(text).canonical() == expected

    def test_can_be_copied_and_pickled(self) -> None:
        selector = Selector.parse("a = 1")

        for other in (copy.deepcopy(selector), pickle.loads(pickle.dumps(selector))):  # noqa: S301
            assert other == selector
            assert other.matches(Message(body="", properties={"a": 1}))


@pytest.mark.parametrize(
    "text",
    [
        "TRUE = 0",
        "JMSPriority = 'high'",
        "'high' <> JMSPriority",
        "JMSDeliveryMode = 2",
        "(number > 1) = 'x'",
        "1 = '1'",
        "region = 'EU' AND JMSTimestamp = 'today'",
    ],
)
def test_what_compares_two_kinds_and_would_never_match_is_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="are never equal or unequal: it would match nothing"):
        Selector.parse(text)


@pytest.mark.parametrize("text", ["JMSPriority IN ('4')", "JMSTimestamp NOT LIKE '2%'"])
def test_in_and_like_of_a_header_that_is_no_text_are_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="is a number"):
        Selector.parse(text)
