"""Refuse, by its name and before the command runs, a value that no option or argument can have.

Typer checks types and bounds; this checks values that would break a driver, a clock or the file system later,
and opens files.
"""

import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from typer.models import ArgumentInfo

from history.errors import ConfigurationError
from triggers.configuration.limits import UNITS, Wrong, read_time, wrong_value

_RATE = re.compile(r"(\d{1,12})/([smhd])", re.ASCII)


def refuse_impossible(command: Callable[..., None], options: Mapping[str, Any]) -> None:
    """Refuse a value that no option and no argument can have.

    Raises:
        ConfigurationError: there is such a value; naming the option or argument.
    """
    parameters = inspect.signature(command).parameters
    for name, value in options.items():
        for text in _each(value):
            if (wrong := wrong_value(text)) is not None:
                raise ConfigurationError(_shown(parameters[name]), wrong.problem, wrong.remedy)


def refuse_unreadable(setting: str, file: Path) -> None:
    """Refuse a file that cannot be read; a pipe is not tested, because it can be read only once.

    Raises:
        ConfigurationError: naming the setting.
    """
    try:
        if not file.is_fifo():
            with file.open("rb") as opened:
                opened.read(1)
    except OSError as error:
        raise _unreadable(setting, file, error) from error


@contextmanager
def reading(file: Path) -> Generator[BinaryIO]:
    """Open the argument FILE, or standard input if it is "-".

    Raises:
        ConfigurationError: it cannot be read.
    """
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise _unreadable("FILE", file, error) from error
    with opened:
        try:
            opened.peek(1)
        except OSError as error:
            raise _unreadable("FILE", file, error) from error
        yield opened


def _unreadable(setting: str, file: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(setting, f"{file}: {error.strerror}", "give a file that can be read")


def _each(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        yield from value
    elif value is not None:
        yield value


def _shown(parameter: inspect.Parameter) -> str:
    """Return the name of a parameter on the command line: --limit, or PARKED_ID for an argument."""
    if isinstance(parameter.default, ArgumentInfo):
        return (parameter.default.metavar or parameter.name.upper()).strip("[].")
    named = getattr(parameter.default, "param_decls", None) or ()
    long = [spelling for spelling in named if spelling.startswith("--")]
    return long[0] if long else f"--{parameter.name.replace('_', '-')}"


def duration_of(option: str, text: str) -> timedelta:
    """Return a time.

    Raises:
        ConfigurationError: it is invalid, or too long; naming the option.
    """
    time = read_time(text)
    if isinstance(time, Wrong):
        raise ConfigurationError(option, f"{text!r} {time.problem}", time.remedy)
    return time


def rate_of(text: str) -> float:
    """Return a rate a second.

    Raises:
        ConfigurationError: it is not a rate; naming --rate.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ConfigurationError("--rate", f"{text!r} is not a rate", "write 2000/s, 5000/h or 1000000/d")
    return int(match[1]) / UNITS[match[2]]
