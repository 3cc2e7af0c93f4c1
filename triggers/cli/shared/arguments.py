"""Refuse, by its name and before the command runs, a value that no option or argument can have.

Typer checks types and bounds; this checks values that would break a driver, a clock or the file system later,
and opens files.
"""

import inspect
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from typer.models import ArgumentInfo

from history.errors import ConfigurationError
from triggers.configuration.limits import wrong_value


def refuse_impossible(command: Callable[..., None], options: Mapping[str, Any]) -> None:
    """Refuse a value that no option and no argument can have.

    Raises:
        ConfigurationError: there is such a value; naming the option or argument.
    """
    parameters = inspect.signature(command).parameters
    for name, value in options.items():
        for one in _each(value):
            if (wrong := wrong_value(one)) is not None:
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
    long = [one for one in named if one.startswith("--")]
    return long[0] if long else f"--{parameter.name.replace('_', '-')}"
