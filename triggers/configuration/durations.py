"""Times as a file or a variable has them: "500ms", "30s", "15m", "2h", "7d", or seconds as a number."""

import math
import re
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

from triggers.configuration.limits import wrong_seconds

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60, "h": 3600, "d": 86400}
_TIME: Final = re.compile(r"(\d{1,15})(ms|[smhd]?)", re.ASCII)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf


def _duration(value: Any) -> timedelta:
    if isinstance(value, bool):
        seconds = None
    elif isinstance(value, int | float):
        seconds = _as_float(value)
    else:
        match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
        seconds = int(match[1]) * _UNITS[match[2] or "s"] if match is not None else None
    if seconds is None:
        raise ValueError("is no time: write 500ms, 30s, 15m, 2h or 7d, or a number of seconds")
    if (wrong := wrong_seconds(seconds)) is not None:
        raise ValueError(wrong.text)
    return timedelta(seconds=seconds)


def written(value: timedelta) -> str:
    """Return a time as a file has it, in the largest unit that gives a whole number."""
    milliseconds = value // timedelta(milliseconds=1)
    for unit, seconds in reversed(_UNITS.items()):
        size = round(seconds * 1000)
        if milliseconds % size == 0 and milliseconds:
            return f"{milliseconds // size}{unit}"
    return f"{value.total_seconds():g}s"


#: A time; in a file text or a number of seconds.
Duration = Annotated[timedelta, BeforeValidator(_duration)]
