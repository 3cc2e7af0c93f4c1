"""Rules remove card numbers, IBANs and secrets from any text, and keep text that only looks similar."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.support.redaction import CARD_NUMBERS, IBANS, TOKENS, Redaction, Rule, redaction_of
from history.support.rendering import exception_info, repr_of, text_of, trace_of

CARD = "4111 1111 1111 1111"

#: Test numbers that card companies publish.
CARDS = (
    "4111111111111111",
    "4111-1111-1111-1111",
    CARD,
    "4111\u00a01111\u00a01111\u00a01111",
    "3782 822463 10005",
    "30569309025904",
    "6011111111111117",
    "5105105105105100",
    "6304000000000000",
    "4222222222222",
    "6759649826438453",
    "4000 0000 0000 0000 006",
)

NO_CARDS = (
    *("order 1234567890123456", "4111 1111 1111 1112", "1700000000001"),
    *("2026-11-27T12:10:37.123456+00:00", "411111111111", "41111111111111111111111111"),
    *("4111  1111  1111  1111", "+49 30 1234567"),
)

EXAMPLES_OF_IBANS = (
    "DE89370400440532013000",
    "DE89 3704 0044 0532 0130 00",
    "de89370400440532013000",
    "GB82 WEST 1234 5698 7654 32",
    "NO9386011117947",
    "NO93 8601 1117 947",
    "FR1420041010050500013M02606",
    "FR14 2004 1010 0505 0001 3M02 606",
    "BE68 5390 0754 7034",
    "MT84MALT011000012345MTLCAST001S",
)

NO_IBANS = (
    "DE88370400440532013000",
    "GB82 TEST 1234 5698 7654 32",
    "DE89",
    "order AB12 was not found",
    "XDE89370400440532013000",
)

SECRETS = (
    ("Authorization: Bearer abc-123", "abc-123"),
    ("it sent Bearer abcdefghijklmnopqrstuvwx", "abcdefghijklmnopqrstuvwx"),
    ("it sent Basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_1", "eyJzdWIiOiIxMjM0In0"),
    ("password=hunter2, user=ann", "hunter2"),
    ("db_password = 'hunter 2'", "hunter 2"),
    ("PASSWORD='hunter \\' 2'", "2'"),
    ("?token=hunter2&page=2", "hunter2"),
    ('{"api_key": "hunter 2"}', "hunter 2"),
    ('"{\\"secret\\": \\"hunter 2\\"}"', "hunter 2"),
    ("x-api-key: hunter2", "hunter2"),
    ("client_secret=hunter2", "hunter2"),
    ("secret_access_key=hunter2", "hunter2"),
    ("password='hunter2", "hunter2"),
    ("redis://:hunter2@localhost/0", "hunter2"),
    ("postgresql://ann:hunt@er2@localhost/shop", "hunt"),
    ("-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----", "hunter2"),
    ("-----BEGIN PRIVATE KEY-----\nhunter2, cut short", "hunter2"),
)

NO_SECRETS = (
    *("basic authentication failed", "the bearer of it", "max_tokens=512", "token expired"),
    *("http://localhost:8080/path?a=b@c", "redis://localhost:6379/0"),
)

RULES = (CARD_NUMBERS, IBANS, TOKENS)


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("around", ["{}", "card {} declined", "({})", "x{}y", "2026-11-27 {}, twice: {}"])
def test_a_card_number_is_taken_out_whatever_is_around_it(card: str, around: str) -> None:
    left = CARD_NUMBERS(around.format(card, card))

    assert card not in left
    assert card[-6:] not in left
    assert "(redacted: card number)" in left


@pytest.mark.parametrize("text", NO_CARDS)
def test_numbers_that_are_no_card_numbers_stay(text: str) -> None:
    assert CARD_NUMBERS(text) == text


def test_what_is_around_a_card_number_stays() -> None:
    assert CARD_NUMBERS(f"at 12, card {CARD}: declined") == "at 12, card (redacted: card number): declined"


@pytest.mark.parametrize("iban", EXAMPLES_OF_IBANS)
@pytest.mark.parametrize("around", ["{}", "to {} PAID", "XY1 {}.", "{},{}"])
def test_an_iban_is_taken_out_whatever_is_around_it(iban: str, around: str) -> None:
    expected = around.replace("{}", "(redacted: IBAN)")

    assert IBANS(around.format(iban, iban)) == expected


def test_an_iban_is_taken_out_whose_beginning_looks_like_the_end_of_another_one() -> None:
    assert IBANS("XY12 FR14 2004 1010 0505 0001 3M02 606") == "(redacted: IBAN)"


@pytest.mark.parametrize("text", NO_IBANS)
def test_what_only_resembles_an_iban_stays(text: str) -> None:
    assert IBANS(text) == text


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_is_taken_out(text: str, secret: str) -> None:
    left = TOKENS(text)

    assert secret not in left
    assert "(redacted: secret)" in left


@pytest.mark.parametrize("text", NO_SECRETS)
def test_texts_without_a_secret_stay(text: str) -> None:
    assert TOKENS(text) == text


#: Any text, and texts of the pieces that the rules look at.
ODD = " |-|4|\u0664|\\|\"|'|=|:|@|://|\n|\ud800|Bearer |token|eyJ|.|(redacted: secret)|password=|-----BEGIN "
PIECES = [*CARDS, *EXAMPLES_OF_IBANS, *(text for text, _ in SECRETS), *NO_SECRETS, *ODD.split("|")]
TEXTS = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(text=TEXTS)
def test_a_rule_takes_any_text_and_has_nothing_left_to_do_a_second_time(rule: Rule, text: str) -> None:
    once = rule(text)

    assert rule(once) == once


@given(digits=st.text("0123456789", min_size=12, max_size=18))
def test_every_number_that_passes_the_check_is_taken_out(digits: str) -> None:
    numbers = [int(digit) for digit in reversed(digits)]
    total = sum(sum(divmod(2 * number, 10)) for number in numbers[0::2]) + sum(numbers[1::2])

    left = [CARD_NUMBERS(f"{digits}{last}") for last in range(10)]

    taken = [last for last, text in enumerate(left) if text == "(redacted: card number)"]
    assert taken == [-total % 10]


#: Pieces of text: when they are repeated, a careless expression reads the same text again and again.
SLOW = (
    "4 |4-|1|DE89 3704 |AB12|aa11 |eyJ-|eyJabcde.|token |token=|secret|a://b:|://|-----BEGIN |bearer "
    "|-----BEGIN PRIVATE KEY-----"
)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("piece", [*SLOW.split("|"), "password='\\", 'token=\\"'])
def test_no_text_takes_a_rule_a_time_that_grows_faster_than_the_text(rule: Rule, piece: str) -> None:
    def seconds(times: int) -> float:
        text = piece * times
        begun = time.process_time()
        rule(text)
        return time.process_time() - begun

    few, many = min(seconds(500) for _ in range(3)), min(seconds(5_000) for _ in range(3))

    assert many < 40 * few + 0.05  # a hundred times as long if it grew with the square


def broken(text: str) -> str:
    raise LookupError(text)


@pytest.mark.parametrize("rule", [broken, print, str.encode])
def test_of_a_text_whose_rule_fails_nothing_is_left(rule: Rule) -> None:
    redact = redaction_of([CARD_NUMBERS, rule, TOKENS])
    assert redact is not None

    left = redact(f"card {CARD} of Ann")

    assert "Ann" not in left
    assert "rule 2 of redact=" in left


def test_no_rules_are_no_redaction() -> None:
    assert redaction_of(None) is None


REDACT = Redaction((CARD_NUMBERS,))


def raised(text: str) -> ValueError:
    with pytest.raises(ValueError, match=r".") as caught:
        raise ValueError(text)
    return caught.value


def test_an_exception_is_shown_without_what_the_rules_find() -> None:
    error = raised(f"{CARD} is declined")

    assert text_of(error, REDACT) == "(redacted: card number) is declined"
    assert "4111" not in repr_of(error, REDACT)
    assert "4111" not in (trace_of(error, redact=REDACT) or "4111")


@pytest.mark.parametrize("before", range(1_960, 2_000))
def test_no_half_of_a_card_number_is_left_where_a_text_is_cut_short(before: int) -> None:
    shown = text_of(raised("x" * before + CARD + "y" * 5_000), REDACT)

    assert "4111" not in shown


def test_a_log_formatter_is_given_an_exception_only_if_the_rules_find_nothing_in_it() -> None:
    assert exception_info(raised("declined"), redact=REDACT) is not None
    assert exception_info(raised(f"{CARD} is declined"), redact=REDACT) is None
