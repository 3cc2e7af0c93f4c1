"""The settings of a trigger on its page: in words, without passwords."""

from datetime import timedelta

import pytest

from triggers import Retry, trigger
from triggers.dashboard.pages.triggers import in_words, settings_of


@trigger(
    "orders",
    name="book",
    parking="postgresql://desk:s3cret@db.example.com/lot",
    journal="redis://:s3cret@journal.example.com",
    lease=timedelta(minutes=2),
    retry=Retry(max_attempts=3),
)
def book(body: dict[str, str]) -> None:
    """Book an order."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "not set"),
        ((), "not set"),
        (True, "yes"),
        (False, "no"),
        (1_048_576, "1,048,576"),
        (timedelta(days=7), "7d"),
        ("park", "park"),
        ((ConnectionError, TimeoutError), "ConnectionError, TimeoutError"),
        (
            Retry(max_attempts=3, interval=timedelta(seconds=1)),
            "max attempts 3, interval 1s, backoff 1.0, max interval 5m",
        ),
        (book, "book"),
    ],
)
def test_a_value_is_said_in_words(value: object, words: str) -> None:
    assert in_words("setting", value) == words


def test_settings_show_no_password_and_no_value_of_python() -> None:
    shown = dict(settings_of(book))

    assert shown["lease"] == "2m"
    assert shown["parking"] == "postgresql://***@db.example.com/lot"
    assert shown["detect_duplicates"] == "yes"
    text = " ".join(shown.values())
    assert not [word for word in ("s3cret", "None", "True", "timedelta", "<", "(") if word in text]
