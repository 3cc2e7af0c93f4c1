"""Find the HTTP guards of applications before a server has started them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from triggers.guards.guard import Guard
from triggers.guards.http.middleware import IdempotencyKey


def guards_in(values: Iterable[object]) -> list[Guard]:
    """Return the guards of the applications among ``values``, and of the applications mounted in them.

    Starlette, FastAPI and Litestar make a middleware only when they start; before that they know its class
    and options.
    """
    found: dict[str, Guard] = {}
    for value in values:
        for guard in _guards_of(value, set()):
            found.setdefault(guard.name, guard)
    return list(found.values())


def _guards_of(application: Any, seen: set[int]) -> Iterator[Guard]:
    if isinstance(application, type) or id(application) in seen:
        return
    seen.add(id(application))
    if isinstance(application, IdempotencyKey):
        yield application.guard
        return
    declared = _listed(application, "user_middleware") or _listed(application, "middleware")
    for one in declared:
        made = getattr(one, "cls", None) or getattr(one, "middleware", None)
        if isinstance(made, type) and issubclass(made, IdempotencyKey):
            yield made(_nothing, **getattr(one, "kwargs", {})).guard
        elif isinstance(one, IdempotencyKey):
            yield one.guard
    for route in _listed(application, "routes"):
        yield from _guards_of(getattr(route, "app", None), seen)


def _listed(holder: Any, name: str) -> list[Any]:
    found = getattr(holder, name, None)
    return list(cast("Sequence[Any]", found)) if isinstance(found, list | tuple) else []


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    """Do nothing: an application that is never called."""
