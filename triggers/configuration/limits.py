"""Limits of every value, from a command line, a variable or a file; and how all of them write a time."""

import re
from datetime import timedelta
from math import inf, isfinite
from typing import Any, Final, NamedTuple

#: The units of a time, in seconds.
UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60, "h": 3600, "d": 86400}

_TIME: Final = re.compile(r"(\d{1,15})(ms|[smhd]?)", re.ASCII)

#: The longest time, a hundred years: no clock and no date overflows with it.
LONGEST: Final = timedelta(days=36_525)

#: The largest whole number: eight bytes, as in databases and Redis.
LARGEST: Final = 2**63 - 1

#: Code points for half a character, or for a byte that is not UTF-8.
_HALVES: Final = ("\ud800", "\udfff")


class Wrong(NamedTuple):
    """The problem with a value, and what to write instead."""

    problem: str
    remedy: str

    @property
    def text(self) -> str:
        """Both in one text."""
        return f"{self.problem}: {self.remedy}"


def wrong_value(value: object) -> Wrong | None:
    """Return the problem with a value, by its type; None if none is known."""
    match value:
        case bool():
            return None
        case int():
            return wrong_number(value)
        case float():
            return wrong_seconds(value)
        case str():
            return wrong_text(value)
        case _:
            return wrong_path(str(value))


def wrong_number(value: int) -> Wrong | None:
    """Return the problem with a whole number."""
    if abs(value) <= LARGEST:
        return None
    return Wrong("is a number that nothing can store", f"write one of at most {LARGEST}")


def wrong_seconds(value: float) -> Wrong | None:
    """Return the problem with a number of seconds."""
    if not isfinite(value):
        return Wrong(f"{value} is not a number that can be counted to", "write a plain number")
    if abs(value) > LONGEST.total_seconds():
        return Wrong("is longer than a hundred years", "write a shorter time")
    return None


def read_time(value: Any) -> timedelta | Wrong:
    """Return the time of a text such as "500ms" or "7d", or of a number of seconds; or its problem."""
    seconds = _seconds_of(value)
    if seconds is None:
        return Wrong("is not a time", "write 500ms, 30s, 15m, 2h or 7d, or a number of seconds")
    return wrong_seconds(seconds) or timedelta(seconds=seconds)


def _seconds_of(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return inf
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if match is None else int(match[1]) * UNITS[match[2] or "s"]


def wrong_text(value: str) -> Wrong | None:
    """Return the problem with a text, such as a name or a URL."""
    if not value:
        return Wrong("is empty", "give a value, or leave it out")
    if any(_HALVES[0] <= character <= _HALVES[1] for character in value):
        return Wrong("holds bytes that are not UTF-8", "write it as UTF-8")
    return wrong_path(value)


def wrong_path(value: str) -> Wrong | None:
    """Return the problem with a path; names of files need not be UTF-8."""
    return Wrong("holds a NUL character", "leave that out") if "\0" in value else None
