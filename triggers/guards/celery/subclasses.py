"""A user's task class: its ``__call__``, its hooks and its key function; and tasks that no guard wraps.

A user's class may replace ``__call__``, as Flask's pattern does, or inherit it from a mixin. The guard wraps
the member that Celery finds, so that no class switches the guard off.
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from types import FunctionType
from typing import Any

from triggers.guards.host import LEFT_OUT, Unguarded

#: Marks a wrapped member.
_MARK = "_doubtless_wrapped"

#: Marks a request while its task runs; a nested call of the task is a part of this run.
TAKEN = "_doubtless_taken"

#: Marks a request that is a copy of a completed one.
COPY = "_doubtless_copy"

#: The attribute of a request that holds ``before_start`` until the guard knows that the task runs.
_BEFORE = "_doubtless_before_start"

#: The hooks that Celery calls after a task.
_AFTERWARDS = ("on_success", "on_failure", "after_return")

#: Runs a guarded request: the task, its arguments, and the caller of its function.
Enter = Callable[[Any, tuple[Any, ...], dict[str, Any], Callable[..., Any]], Any]

_log = logging.getLogger(__name__)


def wrap_members(cls: Any, task_class: type[Any], enter: Enter, *, hooks: bool) -> None:
    """Wrap the members that a class defines or inherits from a mixin; with ``hooks`` False, not the hooks."""
    _free_key(cls)
    _replace(cls, "__call__", task_class, lambda member: called(member, enter))
    if hooks:
        _replace(cls, "before_start", task_class, _put_off)
        for name in _AFTERWARDS:
            _replace(cls, name, task_class, _not_for_a_copy)


def called(member: Any, enter: Enter) -> Callable[..., Any]:
    """Return a ``__call__`` that has a guard around ``member``."""

    def call(task: Any, /, *args: Any, **kwargs: Any) -> Any:  # a task may have a parameter "task"
        own = _bound(member, task)
        request = task.request
        if request.called_directly or getattr(request, TAKEN, False):
            return own(*args, **kwargs)
        setattr(request, TAKEN, True)
        return enter(task, args, kwargs, own)

    setattr(call, _MARK, True)
    return call


def start(request: Any) -> None:
    """Call the postponed ``before_start``, because the task runs now.

    Raises:
        Exception: the exception that it raises.
    """
    put_off: Callable[[], Any] | None = request.__dict__.pop(_BEFORE, None)
    if put_off is not None:
        put_off()


def _put_off(member: Any) -> Callable[..., Any]:
    def before_start(task: Any, /, *args: Any, **kwargs: Any) -> Any:
        own, request = _bound(member, task), task.request
        if request.called_directly or getattr(request, TAKEN, False):
            return own(*args, **kwargs)
        return setattr(request, _BEFORE, lambda: own(*args, **kwargs))

    return before_start


def _not_for_a_copy(member: Any) -> Callable[..., Any]:
    def hook(task: Any, /, *args: Any, **kwargs: Any) -> Any:
        return None if getattr(task.request, COPY, False) else _bound(member, task)(*args, **kwargs)

    return hook


def _replace(cls: Any, name: str, task_class: type[Any], wrap: Callable[[Any], Callable[..., Any]]) -> None:
    member = inspect.getattr_static(cls, name)
    if member is inspect.getattr_static(task_class, name) or getattr(member, _MARK, False):
        return
    wrapped = wrap(member)
    if isinstance(member, FunctionType):
        wrapped = wraps(member)(wrapped)
    setattr(wrapped, _MARK, True)
    setattr(cls, name, wrapped)


def _bound(member: Any, task: Any) -> Callable[..., Any]:
    """Return a member of a class as Python would find it on the task."""
    bound: Callable[..., Any] = member.__get__(task, type(task)) if hasattr(member, "__get__") else member
    return bound


def _free_key(cls: Any) -> None:
    """Have ``uuid=`` called with only the task's arguments: from a class, Python would pass the task as well.

    A method that a class defines with ``self`` stays a method.
    """
    members: dict[str, Any] = cls.__dict__
    key = members.get("uuid")
    if not callable(key) or isinstance(key, staticmethod | classmethod):
        return
    is_of_a_decorator = members.get("_decorated", False)
    if is_of_a_decorator or not (isinstance(key, FunctionType) and _takes_self(key)):
        cls.uuid = staticmethod(key)


def without_self(cls: Any, name: str) -> Any:
    """Return a member of a class, without its ``self`` if it is a method."""
    member = inspect.getattr_static(cls, name)
    return partial(member, None) if isinstance(member, FunctionType) else getattr(cls, name)


def _takes_self(function: FunctionType) -> bool:
    return next(iter(inspect.signature(function).parameters), None) == "self"


def unguarded_in(apps: Iterable[Any], base: type[Any]) -> Mapping[str, Unguarded]:
    """Return the tasks of the applications with the task class ``base`` that do not inherit from it."""
    unguarded: dict[str, Unguarded] = {}
    for app in apps:
        if not _is_guarded(app, base):
            continue
        for name, task in app.tasks.items():
            if not isinstance(task, base) and not name.startswith("celery."):
                unguarded[name] = LEFT_OUT if getattr(task, "guarded", None) is False else _another(task)
    return unguarded


def tell_of_unguarded(base: type[Any]) -> Callable[..., None]:
    """Return a handler that logs at a worker's start the tasks that a guarded application does not guard."""

    def tell(sender: Any, **_about: Any) -> None:
        sender.app.finalize(auto=True)
        for name, unguarded in unguarded_in([sender.app], base).items():
            if not unguarded.is_meant:
                _log.warning("task %s NOT GUARDED: %s", name, unguarded.why, extra={"trigger": name})

    return tell


def _is_guarded(app: Any, base: type[Any]) -> bool:
    """Whether tasks without a ``base=`` are guarded; Celery derives its class from the given class."""
    return issubclass(app.Task, base)


def _another(task: Any) -> Unguarded:
    made_from = type(task).__mro__[1].__qualname__
    return Unguarded(
        f"not guarded: its base is {made_from}; use base=app.Task, or guarded=False if you mean it"
    )
