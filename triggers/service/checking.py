"""Check the user's settings by type and by value: errors name the setting, the remedy and the user's line.

Values are typed Any here because not every user runs a type checker. A wrong value that is not refused when
it is set fails much later, in the middle of a message, or never: ``detect_duplicates="no"`` is true.
"""

import inspect
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, get_args

from history.entry import LONGEST
from history.errors import ConfigurationError, MissingExtraError
from history.message import Message
from history.opening import refuse_unknown_scheme
from history.support.redaction import rules_of
from history.support.rendering import shown
from history.support.user_code import makes_coroutine, makes_generator, takes

_LONGEST_NAME = 200

#: The largest count that JMS, AMQP and every database can hold: four bytes with a sign.
MOST = 2**31 - 1

#: The largest size, in bytes: no bytes in memory are more.
LARGEST = sys.maxsize

#: The most messages that a consumer may fetch, or work on, at the same time: the limit of AMQP 0-9-1.
MOST_AT_ONCE = 2**16 - 1

#: The packages with frames that are not the user's, and standard modules between these frames.
_OURS = frozenset({"history", "resolvers", "triggers", "contextlib", "dataclasses"})

#: Frameworks that make our middleware and tasks themselves: a line of theirs does not help the user.
_FRAMEWORKS = frozenset({"celery", "dramatiq", "fastapi", "faststream", "litestar", "starlette", "taskiq"})


def check_name(setting: str, value: Any) -> None:
    """Refuse a value that no store could use as a name."""
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_NAME:
        raise ConfigurationError(
            setting,
            f"must be text, neither empty nor blank nor too long, not {shown(value)}",
            f"use 1 to {_LONGEST_NAME} characters",
        )
    if "\0" in value:
        raise ConfigurationError(setting, f"{shown(value)} holds a NUL", "PostgreSQL stores none: drop it")
    check_utf8(setting, value)


def check_utf8(setting: str, value: str) -> None:
    """Refuse a text that no server could store, such as one with half a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            setting, f"{shown(value)} holds half a character, which is not UTF-8", "drop it"
        ) from None


def check_text(setting: str, value: Any, remedy: str) -> None:
    """Refuse a value that is not a text, or is empty."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(setting, f"must be text, not {shown(value)}", remedy)


def check_whole(setting: str, value: Any, least: int, most: int = MOST) -> None:
    """Refuse a value that is not a whole number from ``least`` to ``most``."""
    if type(value) is int and least <= value <= most:
        return
    if type(value) is int and value > most:
        raise ConfigurationError(setting, f"must be {most} or less, not {shown(value)}", "use a smaller one")
    raise ConfigurationError(setting, f"must be {least} or more, not {shown(value)}", "use a whole number")


def refuse_beside(why: str, **options: bool) -> None:
    """Refuse the first option that is set although it does not fit, for the reason ``why``.

    Raises:
        ConfigurationError: naming that option.
    """
    for setting, is_set in options.items():
        if is_set:
            raise ConfigurationError(setting, why, "leave one of the two out")


def check_seconds(setting: str, value: Any) -> None:
    """Refuse a value that is not a number of seconds from 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ConfigurationError(setting, f"must be seconds, not {shown(value)}", "use a number, 0 or more")


def check_choice(setting: str, value: Any, choices: Any) -> None:
    """Refuse a value that is not in a Literal.

    Raises:
        ConfigurationError: it is not.
    """
    if not isinstance(value, str) or value not in get_args(choices):
        listed = " or ".join(repr(choice) for choice in get_args(choices))
        raise ConfigurationError(setting, f"{shown(value)} is unknown", f"use {listed}")


def check_switch(setting: str, value: Any) -> None:
    """Refuse a value that is neither True nor False, such as "no", which would be true."""
    if not isinstance(value, bool):
        raise ConfigurationError(setting, f"must be True or False, not {shown(value)}", "use one of them")


def check_tracing(value: Any) -> None:
    """Refuse a value that is not a switch, and tracing without OpenTelemetry.

    Raises:
        ConfigurationError: it is neither True nor False.
        MissingExtraError: OpenTelemetry is not installed.
    """
    check_switch("tracing", value)
    if value and find_spec("opentelemetry") is None:
        raise MissingExtraError("tracing=", extra="otel", package="opentelemetry-api")


def check_redact(value: Any) -> None:
    """Refuse rules that are not functions of a text, and an empty list.

    Raises:
        ConfigurationError: naming the first wrong rule.
    """
    remedy = "give CARD_NUMBERS, IBANS, TOKENS, a function of a text that returns a text, or a list of these"
    if value is not None and not rules_of(value):
        raise ConfigurationError("redact", "it has no rule", f"{remedy}; or leave it out")
    for rule in rules_of(value):
        check_callable("redact", rule, remedy)
        if inspect.iscoroutinefunction(rule):
            raise ConfigurationError("redact", f"{shown(rule)} is a coroutine function", remedy)


def check_duration(setting: str, value: Any, *, none: bool = False) -> None:
    """Refuse a value that is not a duration; ``none`` allows a duration of 0."""
    if not isinstance(value, timedelta):
        raise ConfigurationError(
            setting, f"must be a timedelta, not {shown(value)}", "use one, such as timedelta(seconds=30)"
        )
    if value < timedelta(0) or (not none and value < timedelta(milliseconds=1)):
        least = "0" if none else "a millisecond"
        raise ConfigurationError(
            setting, f"must be {least} or longer, not {value!r}", "use a longer timedelta"
        )
    if value > LONGEST:
        raise ConfigurationError(
            setting, f"{value} is longer than {LONGEST.days:,} days", "use a shorter timedelta"
        )


def check_callable(setting: str, value: Any, remedy: str) -> None:
    """Refuse a value that cannot be called."""
    if not callable(value):
        raise ConfigurationError(setting, f"{shown(value)} cannot be called", remedy)


def check_takes(setting: str, value: Any, *arguments: str, remedy: str) -> None:
    """Refuse a value that cannot be called with these arguments, which are in words: "one event"."""
    check_callable(setting, value, remedy)
    if not takes(value, len(arguments)):
        called_with = " and ".join(arguments) or "no arguments"
        raise ConfigurationError(setting, f"{shown(value)} cannot be called with {called_with}", remedy)


def check_plain(
    setting: str, value: Any, *arguments: str, remedy: str, instead: str = "give a plain function"
) -> None:
    """Refuse what :func:`check_runs` refuses; else as :func:`check_takes`."""
    check_runs(setting, value, instead)
    check_takes(setting, value, *arguments, remedy=remedy)


def check_runs(setting: str, value: Any, instead: str = "give a plain function") -> None:
    """Refuse a coroutine function, with the remedy ``instead``, and a generator function."""
    if makes_coroutine(value):
        raise ConfigurationError(setting, "it is a coroutine function", instead)
    refuse_generator(setting, value)


def refuse_generator(setting: str, value: Any) -> None:
    """Refuse a generator function."""
    if makes_generator(value):
        problem = "it is a generator function: calling it runs nothing"
        raise ConfigurationError(setting, problem, "take the yield out of it")


def check_kind(setting: str, value: Any, wanted: type, remedy: str) -> None:
    """Refuse a value of another kind."""
    if not isinstance(value, wanted):
        raise ConfigurationError(setting, f"must be a {wanted.__name__}, not {shown(value)}", remedy)


def check_able(setting: str, value: Any, methods: Sequence[str], remedy: str) -> None:
    """Refuse a store, a provider or a lot that lacks a needed method, and a class instead of an instance."""
    if isinstance(value, type) or not all(callable(getattr(value, method, None)) for method in methods):
        raise ConfigurationError(setting, f"{shown(value)} cannot {methods[0]}", remedy)


def check_history_url(setting: str, value: Any, remedy: str) -> None:
    """Refuse a value that is not text, or is a URL that no history has."""
    check_text(setting, value, remedy)
    refuse_unknown_scheme(setting, value)


def check_provider(value: Any) -> None:
    """Refuse a value that is neither a URL nor a provider."""
    if isinstance(value, str):
        check_text("provider", value, "give a URL, such as 'redis://...'")
    else:
        check_able("provider", value, ("send", "open_receiver"), "give a URL or a provider")


def check_messages(messages: Any) -> list[Message]:
    """Return messages as a list.

    Raises:
        ConfigurationError: one of them is not a Message.
    """
    if not isinstance(messages, Iterable) or isinstance(messages, Message):
        refuse_message(messages)
    checked: list[Any] = list(messages)  # pyright: ignore[reportUnknownArgumentType]  (a user's)
    for message in checked:
        if not isinstance(message, Message):
            refuse_message(message)
    return checked


def refuse_message(value: object) -> NoReturn:
    """Refuse a value that is not a Message, or not a list of messages."""
    is_message = isinstance(value, Message)
    problem = f"must be a {'list of messages' if is_message else 'Message'}, not {shown(value)}"
    remedy = "write [Message(...)]" if is_message else 'write Message(body=..., uuid="...")'
    with pointing():
        raise ConfigurationError("message", problem, remedy)


@contextmanager
def pointing() -> Generator[None]:
    """Add to a ConfigurationError the user's line that caused it."""
    try:
        yield
    except ConfigurationError as error:
        if (line := users_line()) is not None:
            error.point_at(line)
        raise


def users_line() -> str | None:
    """Return the nearest line outside our code; None if our command line or a framework made the call."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("triggers.cli"):
            return None
        if name.partition(".")[0] in _FRAMEWORKS:
            return None
        if name.partition(".")[0] not in _OURS:
            return f"{_short(frame.f_code.co_filename)}, line {frame.f_lineno}"
        frame = frame.f_back
    return None


def _short(file: str) -> str:
    """Return the path relative to the current folder."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):  # another drive, or the current folder no longer exists
        return file
