"""How a trigger travels to the executors: by its name if they can import it, else with its function."""

import importlib
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Protocol, cast

from pyspark import cloudpickle

from history.errors import ConfigurationError
from resolvers.resolution import AskedResolver
from triggers.pipeline.protocol import Pipeline
from triggers.pipeline.routing import Routing
from triggers.service.settings import Settings


class Shippable(Protocol):
    """The members of a :class:`~triggers.Trigger` that a row service needs, in driver and executors.

    If the executors cannot import the trigger by its name, its class is called with ``(service, settings,
    history=, resolver=)``.
    """

    service: Callable[..., Any]
    settings: Settings
    routing: Routing
    resolver: AskedResolver | None

    @property
    def name(self) -> str:
        """The namespace in the history."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether the service is a coroutine function."""
        ...

    def use_default_history(self, history: str) -> None:
        """Set the history of a trigger that names none."""
        ...

    def pipeline(self) -> Pipeline:
        """Return the blocking pipeline."""
        ...

    def async_pipeline(self) -> Pipeline:
        """Return the running event loop's pipeline."""
        ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop's pipeline."""
        ...


# Python workers live for many tasks: a trigger keeps its connections.
_arrived: dict[bytes, Shippable] = {}


def packed(trigger: Shippable, history: str) -> bytes:
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
    parts = (type(trigger), trigger.service, trigger.settings, history, resolver)
    return _dumped((_rebuilt, parts), trigger)


def unpacked(shipped: bytes) -> Shippable:
    """Return the trigger in this process, the same one for the same bytes."""
    key = blake2b(shipped, digest_size=16).digest()
    if key not in _arrived:
        make, arguments = cloudpickle.loads(shipped)
        _arrived[key] = make(*arguments)
    return _arrived[key]


def _importable(module: str, name: str) -> object:
    if module == "__main__" or "<locals>" in name:
        return None
    attribute: object = importlib.import_module(module)
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    return attribute


def _imported(module: str, name: str, history: str) -> Shippable:
    attribute: Any = importlib.import_module(module)
    for part in name.split("."):
        attribute = getattr(attribute, part)
    attribute.use_default_history(history)
    return attribute  # type: ignore[no-any-return]


def _rebuilt(
    make: Callable[..., Shippable],
    service: Callable[..., Any],
    settings: Settings,
    history: str,
    resolver: Any,
) -> Shippable:
    return make(service, settings, history=history, resolver=resolver)


def _dumped(recipe: Any, trigger: Shippable) -> bytes:
    try:
        return cast("bytes", cast("Any", cloudpickle).dumps(recipe))
    except Exception as error:
        raise _cannot(trigger, f"{type(error).__name__}: {error}") from error


def _cannot(trigger: Shippable, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"trigger {trigger.name}",
        f"it cannot travel to the executors ({reason})",
        "define it at the top of a module that they can import",
    )
