"""How a trigger travels to the executors: by its name where they can import it, else with its function."""

import importlib
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, cast

from pyspark import cloudpickle

from history.errors import ConfigurationError
from triggers.declaration.trigger import Trigger

AnyTrigger = Trigger[..., Any]

# Python workers live for many tasks: a trigger keeps its connections.
_arrived: dict[bytes, AnyTrigger] = {}


def packed(trigger: AnyTrigger, history: str) -> bytes:
    """Return a trigger for :func:`unpacked`.

    Raises:
        ConfigurationError: it cannot travel.
    """
    module, name = getattr(trigger, "__module__", None), getattr(trigger, "__qualname__", None)
    if module is not None and name is not None and _importable(module, name) is trigger:
        return _dumped((_imported, (module, name, history)), trigger)
    if trigger.routing.routes:
        raise _cannot(trigger, "its routes are bound to where it was defined")
    resolver = None if trigger.resolver is None else trigger.resolver.function
    return _dumped((_rebuilt, (trigger.service, trigger.settings, history, resolver)), trigger)


def unpacked(shipped: bytes) -> AnyTrigger:
    """Return the trigger in this process, the same one for the same bytes."""
    key = blake2b(shipped, digest_size=16).digest()
    if key not in _arrived:
        make, arguments = cloudpickle.loads(shipped)
        _arrived[key] = make(*arguments)
    return _arrived[key]


def _importable(module: str, name: str) -> object:
    if module == "__main__" or "<locals>" in name:
        return None
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _imported(module: str, name: str, history: str) -> AnyTrigger:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    found.use_default_history(history)
    return found  # type: ignore[no-any-return]


def _rebuilt(service: Callable[..., Any], settings: Any, history: str, resolver: Any) -> AnyTrigger:
    return Trigger(service, settings, history=history, resolver=resolver)


def _dumped(made: Any, trigger: AnyTrigger) -> bytes:
    try:
        return cast("bytes", cast("Any", cloudpickle).dumps(made))
    except Exception as error:
        raise _cannot(trigger, f"{type(error).__name__}: {error}") from error


def _cannot(trigger: AnyTrigger, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"trigger {trigger.name}",
        f"it cannot travel to the executors ({why})",
        "define it at the top of a module that they can import",
    )
