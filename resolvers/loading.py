"""From a text to a resolver: ``package.module:function`` or the name of an installed entry point."""

import importlib
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from history.errors import ConfigurationError
from history.support.rendering import told_of
from resolvers.resolution import Resolver

#: The entry point group in which a distribution offers its resolvers.
ENTRY_POINT_GROUP = "doubtless.resolvers"


def load_resolver(spec: Resolver | str | None) -> Resolver | None:
    """Return the resolver that ``spec`` means; None if it means none.

    A callable is the resolver itself. A text with a colon is ``package.module:function``, where the part
    after the colon may be nested (``module:Class.method``); the module is imported. Any other text is the
    name of an entry point in the group ``doubtless.resolvers``.

    Raises:
        ConfigurationError: a part of ``spec`` is wrong; the error names it. If the import of the module
            raised an exception, that is the ``__cause__``.
    """
    if spec is None:
        return None
    if not isinstance(spec, str):
        return _callable(spec, repr(spec)[:60])
    if ":" not in spec:
        return _from_entry_point(spec)
    return _callable(load_attribute(spec), spec)


def load_attribute(spec: str) -> object:
    """Return what ``package.module:name`` names, callable or not; raises as :func:`load_resolver`."""
    module, _, path = spec.partition(":")
    if not _dotted(module) or not _dotted(path):
        raise _wrong(f"{spec!r} is malformed", "write 'package.module:function'")
    return _attribute(module, path, spec)


def _from_entry_point(name: str) -> Resolver:
    offered = entry_points(group=ENTRY_POINT_GROUP)
    points = {point.value: point for point in offered.select(name=name)}
    if not points:
        raise _wrong(f"no entry point {name!r} in {ENTRY_POINT_GROUP}", _instead(name, sorted(offered.names)))
    if len(points) > 1:
        raise _wrong(
            f"the entry point {name!r} is offered by {', '.join(map(_offerer, points.values()))}",
            "name one of them as 'package.module:function'",
        )
    point = next(iter(points.values()))
    spec = f"{name} = {point.value}"
    if not point.attr:
        raise _wrong(f"the entry point {spec!r} names a module", "name a function: 'package.module:function'")
    return _callable(_attribute(point.module, point.attr, spec), spec)


def _offerer(point: EntryPoint) -> str:
    return f"{point.dist.name} ({point.value})" if point.dist else point.value


def _instead(name: str, offered: Sequence[str]) -> str:
    if "." in name:
        module, _, function = name.rpartition(".")
        return f"a function of a module is written with a colon: '{module}:{function}'"
    if close := get_close_matches(name, offered):
        return f"did you mean {close[0]!r}?"
    return f"installed are: {', '.join(offered) or 'none'}"


def _attribute(module: str, path: str, spec: str) -> object:
    attribute: object = _imported(module, spec)
    reached = module
    for name in path.split("."):
        if not hasattr(attribute, name):
            raise _wrong(f"{reached} has no {name!r} (from {spec!r})", _close_to(name, attribute))
        attribute = getattr(attribute, name)
        reached = f"{reached}.{name}"
    return attribute


def _imported(module: str, spec: str) -> object:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):
            raise _wrong(
                f"there is no module {error.name!r} (from {spec!r})",
                "install it, or start where it can be imported",
            ) from error
        raise _failed_inside(module, spec, error) from error
    except Exception as error:
        raise _failed_inside(module, spec, error) from error


def _failed_inside(module: str, spec: str, error: Exception) -> ConfigurationError:
    raised = told_of(error)
    return _wrong(
        f"the module {module!r} exists, but importing it raised {raised} (from {spec!r})",
        "correct the module, or install what it needs",
    )


def _close_to(name: str, holder: object) -> str:
    offered = [each for each in dir(holder) if not each.startswith("_")]
    if close := get_close_matches(name, offered):
        return f"did you mean {close[0]!r}?"
    return "define it there, or correct the name"


def _callable(attribute: Any, spec: str) -> Resolver:
    if not callable(attribute):
        raise _wrong(f"{spec!r} is a {type(attribute).__name__}, which cannot be called", "name a function")
    return cast("Resolver", attribute)


def _dotted(path: str) -> bool:
    return all(part.isidentifier() for part in path.split("."))


def _wrong(problem: str, remedy: str) -> ConfigurationError:
    return ConfigurationError("resolver", problem, remedy)
