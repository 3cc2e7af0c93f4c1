"""What is said of an exception."""

import sqlite3

import pytest
from sqlalchemy.exc import OperationalError

from history.support.rendering import reason_of


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
