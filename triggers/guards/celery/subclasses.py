"""What a user's task class brings: its ``__call__``, its hooks, and its key function.

A class of the user's may replace ``__call__``, as Flask's pattern does, or get it from a mixin. The guard
wraps the one that Celery finds, so that no class switches the guard off.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

#: What marks a member that is wrapped already.
_MARK = "_doubtless_wrapped"

#: What marks a request whose task runs; what the task calls of itself is a part of this run.
TAKEN = "_doubtless_taken"

#: What marks a request that is a copy of one that was done.
COPY = "_doubtless_copy"

#: Where a request holds ``before_start`` until the guard knows that the task runs.
_BEFORE = "_doubtless_before_start"

#: The hooks that Celery calls after a task.
_AFTERWARDS = ("on_success", "on_failure", "after_return")

#: Runs a guarded request: the task, its arguments, and what calls its function.
Enter = Callable[[Any, tuple[Any, ...], dict[str, Any], Callable[..., Any]], Any]


def wrap_members(cls: Any, task_class: type[Any], enter: Enter, *, hooks: bool) -> None:
    """Wrap what a class has of its own or from a mixin; without ``hooks`` these stay as they are."""
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
    """Call the ``before_start`` that was put off, because the task runs now.

    Raises:
        Exception: what it raises.
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
    """Return a member of a class as Python would find it at the task."""
    bound: Callable[..., Any] = member.__get__(task, type(task)) if hasattr(member, "__get__") else member
    return bound


def _free_key(cls: Any) -> None:
    """Have ``uuid=`` called with the task's arguments alone: at a class, Python would add the task to them.

    A method that a class defines with ``self`` is a method.
    """
    members: dict[str, Any] = cls.__dict__
    key = members.get("uuid")
    if not callable(key) or isinstance(key, staticmethod | classmethod):
        return
    is_of_a_decorator = members.get("_decorated", False)
    if is_of_a_decorator or not (isinstance(key, FunctionType) and _takes_self(key)):
        cls.uuid = staticmethod(key)


def _takes_self(function: FunctionType) -> bool:
    return next(iter(inspect.signature(function).parameters), None) == "self"
