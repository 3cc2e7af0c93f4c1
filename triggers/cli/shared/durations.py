"""Times and rates as they are written on a command line: 90s, 15m, 2h, 7d; 2000/s, 1000000/d."""

import re
from datetime import timedelta

from history.errors import ConfigurationError
from triggers.configuration.limits import wrong_seconds

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d{1,12})([smhd])", re.ASCII)
_RATE = re.compile(r"(\d{1,12})/([smhd])", re.ASCII)


def duration_of(option: str, text: str) -> timedelta:
    """Return a time.

    Raises:
        ConfigurationError: it is invalid, or too long; naming the option.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(option, f"{text!r} is not a time", "write 90s, 15m, 2h or 7d")
    seconds = int(found[1]) * _UNITS[found[2]]
    if (wrong := wrong_seconds(seconds)) is not None:
        raise ConfigurationError(option, f"{text!r} {wrong.problem}", wrong.remedy)
    return timedelta(seconds=seconds)


def rate_of(option: str, text: str) -> float:
    """Return a rate a second.

    Raises:
        ConfigurationError: it is not a rate; naming the option.
    """
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(option, f"{text!r} is not a rate", "write 2000/s, 5000/h or 1000000/d")
    return int(found[1]) / _UNITS[found[2]]
