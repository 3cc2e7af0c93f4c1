"""Times as a file or a variable has them: "500ms", "30s", "15m", "2h", "7d", or seconds as a number."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator

from triggers.configuration.limits import UNITS, read_time


def _duration(value: Any) -> timedelta:
    time = read_time(value)
    if isinstance(time, timedelta):
        return time
    raise ValueError(time.text)


def written(value: timedelta) -> str:
    """Return a time as a file has it, in the largest unit that gives a whole number."""
    milliseconds = value // timedelta(milliseconds=1)
    for unit, seconds in reversed(UNITS.items()):
        size = round(seconds * 1000)
        if milliseconds % size == 0 and milliseconds:
            return f"{milliseconds // size}{unit}"
    return f"{value.total_seconds():g}s"


#: A time; in a file text or a number of seconds.
Duration = Annotated[timedelta, BeforeValidator(_duration)]
