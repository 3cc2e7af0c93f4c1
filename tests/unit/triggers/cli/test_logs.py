"""The log as JSON: each record is one object on one line, whatever it contains."""

import json
import logging
import os
from typing import Any

import pytest

from triggers.cli.shared.logs import JsonFormatter, LineFormatter
from triggers.detection.table import Status


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def written(
    message: Any, *arguments: Any, error: BaseException | None = None, **extra: Any
) -> dict[str, Any]:
    """Return the object that a record becomes; it must be one line."""
    raised = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("shop", logging.WARNING, "shop.py", 1, message, arguments, raised)
    vars(record).update(extra)
    line = JsonFormatter("host-1").format(record)
    assert line.isprintable()
    found: dict[str, Any] = json.loads(line)
    return found


def test_what_is_known_of_a_message_stands_beside_the_text() -> None:
    found = written("%s gave up", "book", trigger="book", uuid="u1", fence=7, status=Status.IN_DOUBT)

    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "WARNING",
        "logger": "shop",
        "message": "book gave up",
        "process": os.getpid(),
        "consumer": "host-1",
        "trigger": "book",
        "uuid": "u1",
        "fence": 7,
        "status": "IN_DOUBT",
    }


@pytest.mark.parametrize("odd", ["two\nlines", "\x1b[31mred", "\ud800", "\x00", "“quoted”", b"\xff", 5])
def test_odd_text_stays_one_line(odd: Any) -> None:
    assert written("uuid %s", odd, uuid=odd)["message"] == f"uuid {odd}"


@pytest.mark.parametrize("arguments", [("one", "too many"), (Silent(),)])
def test_a_record_whose_arguments_do_not_fit_is_not_lost(arguments: tuple[Any, ...]) -> None:
    assert written("uuid %s", *arguments)["message"] == "uuid %s"


def test_an_error_has_class_text_and_trace() -> None:
    with pytest.raises(ValueError, match="invalid") as raised:
        int("no\nsuch account")

    found = written("failed", error=raised.value)["error"]

    assert (found["class"], found["text"]) == (
        "ValueError",
        "invalid literal for int() with base 10: 'no\\nsuch account'",
    )
    assert found["trace"].startswith("Traceback (most recent call last)")


def test_values_that_json_does_not_know_become_text() -> None:
    assert written("x", trigger=Silent(), uuid={1})["uuid"] == "{1}"


def test_no_line_of_a_traceback_looks_like_a_line_of_the_log() -> None:
    forged = "2026-11-28T00:00:00+0000 CRITICAL forged"
    error = ValueError(f"bad\n{forged}")
    record = logging.LogRecord("shop", logging.WARNING, "shop.py", 1, "failed", (), (ValueError, error, None))

    lines = LineFormatter().format(record).splitlines()

    assert lines[1:] == ["  ValueError: bad", f"  {forged}"]
