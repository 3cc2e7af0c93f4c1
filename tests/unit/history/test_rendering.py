"""The texts that describe exceptions in logs and errors."""

import sqlite3

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from history.support.rendering import (
    LONGEST_IDENTITY,
    exception_info,
    in_log,
    in_one_line,
    reason_of,
    text_of,
    told_of,
    trace_of,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OperationalError("SELECT 1", {}, sqlite3.OperationalError("disk I/O error")), "disk I/O error"),
        (ConnectionError("\nrefused\nby everybody"), "refused"),
        (TimeoutError(), "TimeoutError"),
        (None, "no answer"),
    ],
)
def test_the_reason_of_an_outage_is_one_line_of_the_driver(error: BaseException | None, text: str) -> None:
    assert reason_of(error) == text


#: psycopg's text for a row that already exists.
TAKEN = """duplicate key value violates unique constraint "cards_pkey"
DETAIL:  Key (number)=(4111111111111111) already exists.
HINT:  Use another one."""

#: psycopg's text for a value with several lines.
BROKEN = "new row violates a check\nDETAIL:  Failing row contains (4111111111111111, secret\n\n123)."


def raised(text: str) -> IntegrityError:
    """Return an error as SQLAlchemy raises it for a user's engine, which shows its parameters."""
    parameters = {"number": "4111111111111111", "cvv": "123]"}
    with pytest.raises(IntegrityError) as caught:
        raise IntegrityError("INSERT INTO cards VALUES (:number, :cvv)", parameters, ValueError(text))
    return caught.value


@pytest.mark.parametrize("text", [TAKEN, BROKEN])
def test_the_values_of_rows_are_told_to_nobody(text: str) -> None:
    error = raised(text)

    for told in (text_of(error), trace_of(error) or "", text_of(ValueError(text))):
        assert "4111111111111111" not in told
        assert "123" not in told
        assert text.partition("\n")[0] in told
    # A log formatter would print the values.
    assert exception_info(error) is None


def test_the_values_of_rows_in_a_group_of_errors_are_told_to_nobody() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        raise ExceptionGroup("two tasks", [raised(TAKEN), ValueError(BROKEN), LookupError("no such order")])

    told = trace_of(caught.value) or ""
    assert "4111111111111111" not in told
    assert "123" not in told
    assert "HINT:  Use another one." in told
    assert "LookupError: no such order" in told
    assert exception_info(caught.value) is None


def test_a_text_with_many_beginnings_of_values_takes_no_longer() -> None:
    assert text_of(ValueError("\n[parameters: " * 50_000)).count("[parameters: ") > 10


def test_what_stands_behind_the_values_is_told() -> None:
    told = text_of(raised(TAKEN))

    assert "HINT:  Use another one." in told
    assert "INSERT INTO cards" in told


def test_the_cause_of_an_error_is_told_behind_its_values() -> None:
    with pytest.raises(LookupError) as caught:
        raise LookupError("no such order") from raised(BROKEN)

    told = trace_of(caught.value) or ""
    assert "123" not in told
    assert told.endswith("LookupError: no such order\n")
    assert "The above exception was the direct cause" in told


@pytest.mark.parametrize("text", ["DETAIL without a colon\n", "in a line DETAIL: 7", "a\n\nb\n"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert text_of(ValueError(text)) == text


@pytest.mark.parametrize(
    ("identity", "shown"),
    [
        ("order 1, Zürich", "order 1, Zürich"),
        ("order-1\n2026-01-02 ERROR paid", "order-1\\n2026-01-02 ERROR paid"),
        ("order-1\x1b[2J\u2028\x85", "order-1\\x1b[2J\\u2028\\x85"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_an_identity_is_one_line_of_a_log(identity: str, shown: str) -> None:
    assert in_log(identity) == shown


@pytest.mark.parametrize(
    "text", ["bad\nCRITICAL forged", "bad\r\n  CRITICAL forged", "bad\x85CRITICAL\u2028forged"]
)
def test_a_text_of_user_code_is_one_line_of_a_log(text: str) -> None:
    assert in_one_line(text) == "bad CRITICAL forged"


def test_an_exception_without_a_text_is_its_class() -> None:
    assert told_of(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_a_long_identity_is_cut_short_in_a_log() -> None:
    shown = in_log("a" * 1_000_000 + "b")

    assert len(shown) <= LONGEST_IDENTITY + 10
    assert (shown[:9], shown[-1]) == ("a" * 9, "b")
