"""Compare the arguments of tasks: under one key, the first arguments count."""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from typing import Any, Literal, cast
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from history.errors import ConfigurationError
from history.message import Message
from history.support.rendering import shown
from triggers.guards.guard import Guard
from triggers.service.checking import pointing
from triggers.service.keeping import Keep
from triggers.service.options import HostOptions

#: The property of a message that holds the arguments of its task; empty if they cannot be compared.
_PROPERTY = "arguments_compared"

#: Types of arguments that are comparable in addition to JSON values; each has only one written form.
_KNOWN = (date, time, timedelta, Decimal, Enum, UUID, bytes, BaseModel)


class TaskOptions(HostOptions, total=False):
    """The options of ``guarded`` for a framework with tasks that are functions with arguments."""

    keep_result: bool | Keep
    fingerprint: Literal["arguments"] | None


def with_arguments(options: TaskOptions) -> HostOptions:
    """Return the options of the guards of tasks.

    Raises:
        ConfigurationError: ``fingerprint`` has another value.
    """
    remaining = dict(options)
    fingerprint = remaining.pop("fingerprint", None)
    if fingerprint == "arguments":
        remaining["fingerprint"] = _of_arguments
    elif fingerprint is not None:
        with pointing():
            raise ConfigurationError(
                "fingerprint", f"{shown(fingerprint)} is not 'arguments'", 'write fingerprint="arguments"'
            )
    return cast("HostOptions", remaining)


def compared(
    guard: Guard, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, str]:
    """Return the property for the comparison of a call's arguments; none if they are not compared."""
    if guard.settings.fingerprint is not _of_arguments:
        return {}
    try:
        written = json.dumps(_plain(_by_name(function, args, kwargs)), sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return {_PROPERTY: ""}
    return {_PROPERTY: blake2b(written.encode(), digest_size=16).hexdigest()}


def _of_arguments(message: Message) -> Any:
    """Return the compared part of a task's message; None for a message older than this feature."""
    digest = message.properties.get(_PROPERTY)
    if digest == "":
        problem = "an argument cannot be compared: use JSON values, dates, decimals, UUIDs or models"
        raise TypeError(problem)
    return None if digest is None else {"arguments": digest}


def _by_name(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return arguments by the names of the parameters, whether they are positional or named.

    Defaults are left out, because another version may have others.
    """
    try:
        return inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):  # the task cannot be called with these, and will say so itself
        return [args, kwargs]


def _plain(value: Any) -> Any:
    """Return a value as JSON that is the same in every process.

    Raises:
        TypeError: it has no such JSON, for example an object that is written with its address.
    """
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Mapping):
        return {_name(name): _plain(item) for name, item in cast("Any", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(_plain(item), sort_keys=True) for item in cast("Any", value))
    if isinstance(value, _KNOWN):
        return to_jsonable_python(value, bytes_mode="base64")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(type(value).__name__)


def _name(name: Any) -> str:
    return name if isinstance(name, str) else json.dumps(_plain(name), sort_keys=True)
