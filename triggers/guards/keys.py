"""``uuid=`` of a task: the name of a parameter, or a function of the task's arguments."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from history.errors import ConfigurationError
from history.identity import canonical
from history.support.rendering import shown, text_of
from triggers.guards.guard import Guard
from triggers.service.checking import check_callable, check_runs

_log = logging.getLogger(__name__)

#: Identifies the run: the name of a parameter of the task, or a function of its arguments.
Key = str | Callable[..., Any]

_VARIABLE = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


def check_key(task: str, key: Any, function: Callable[..., Any], *, sent_whole: bool = True) -> None:
    """Refuse a key that can identify no call of a task; None means that the task has no key.

    ``sent_whole`` says that a sender gives all arguments that the function needs.

    Raises:
        ConfigurationError: naming the task, and what is wrong with the key.
    """
    if key is None:
        return
    setting, remedy = f"{task}: uuid", "name a parameter of the task, or give a function of its arguments"
    parameters = inspect.signature(function).parameters
    if isinstance(key, str):
        if key not in parameters or parameters[key].kind in _VARIABLE:
            raise ConfigurationError(setting, f"the task has no parameter {key!r}", remedy)
        return
    check_callable(setting, key, remedy)
    check_runs(setting, key)
    if sent_whole and not _takes_a_call(key, list(parameters.values())):
        called_with = ", ".join(parameters) or "no arguments"
        raise ConfigurationError(setting, f"{shown(key)} cannot be called with {called_with}", remedy)


def _takes_a_call(key: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> bool:
    """Whether a function takes the arguments of a call with these parameters, by position or by name."""
    if any(parameter.kind in _VARIABLE for parameter in parameters):
        return True
    try:
        signature = inspect.signature(key)
    except ValueError:  # such as some functions in C
        return True
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    for sent in (required, parameters):
        named = {parameter.name for parameter in sent if parameter.kind is parameter.KEYWORD_ONLY}
        with suppress(TypeError):
            signature.bind(*range(len(sent) - len(named)), **dict.fromkeys(named))
            return True
        with suppress(TypeError):
            signature.bind(**dict.fromkeys(parameter.name for parameter in sent))
            return True
    return False


def uuid_for(guard: Guard, read: Callable[[], object]) -> str | None:
    """Return the canonical identity of what ``read`` returns; None if it fails or there is none.

    A call without an identity is rejected and parked; in shadow it runs. If this raised, some frameworks
    would drop the call, and others would deliver it without end.
    """
    try:
        uuid = canonical(read())
    except Exception as error:  # noqa: BLE001  (a user's function may raise anything)
        uuid, problem = None, text_of(error, guard.settings.redaction)
    else:
        problem = "the key is empty"
    if uuid is None:
        shadow = "in shadow it runs; without: " if guard.settings.shadow else ""
        _log.error("%s: %sno uuid can be read of this call: %s", guard.name, shadow, problem)
    return uuid


def key_of(
    task: str, key: Key, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> object:
    """Return the identity of a call, as the user's key reads it.

    Raises:
        ConfigurationError: the task has no such parameter.
    """
    return key(*args, **kwargs) if callable(key) else _argument(task, key, function, args, kwargs)


def _argument(
    task: str, name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    if name not in bound.arguments:
        raise ConfigurationError(
            f"task {task}: uuid", f"it has no parameter {name!r}", "name one, or give a function"
        )
    return bound.arguments[name]
