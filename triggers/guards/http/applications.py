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
    guards: dict[str, Guard] = {}
    for value in values:
        for guard in _guards_of(value, set()):
            guards.setdefault(guard.name, guard)
    return list(guards.values())


def _guards_of(application: Any, seen: set[int]) -> Iterator[Guard]:
    if isinstance(application, type) or id(application) in seen:
        return
    seen.add(id(application))
    if isinstance(application, IdempotencyKey):
        yield application.guard
        return
    declared = _listed(application, "user_middleware") or _listed(application, "middleware")
    for middleware in declared:
        made = getattr(middleware, "cls", None) or getattr(middleware, "middleware", None)
        if isinstance(made, type) and issubclass(made, IdempotencyKey):
            yield made(_nothing, **getattr(middleware, "kwargs", {})).guard
        elif isinstance(middleware, IdempotencyKey):
            yield middleware.guard
    for route in _listed(application, "routes"):
        yield from _guards_of(getattr(route, "app", None), seen)


def _listed(holder: Any, name: str) -> list[Any]:
    listed = getattr(holder, name, None)
    return list(cast("Sequence[Any]", listed)) if isinstance(listed, list | tuple) else []


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    """Do nothing: an application that is never called."""
