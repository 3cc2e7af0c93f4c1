"""User code: its failures, what it takes and makes, and the context in which it ends."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import Any


def is_failure(error: BaseException) -> bool:
    """Return whether an exception of user code is a failure; every other exception passes through.

    An :class:`asyncio.CancelledError` is a failure if nobody cancelled the task that runs: the code awaited
    something that was cancelled. A group of failures is also a failure.
    """
    class_ = type(error)
    if issubclass(class_, Exception):
        return True
    if issubclass(class_, BaseExceptionGroup):
        return all(is_failure(member) for member in members(error))
    return issubclass(class_, asyncio.CancelledError) and not _was_cancelled()


def _was_cancelled() -> bool:
    """Whether somebody has cancelled the running task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs: nothing here can be cancelled
        return False
    return task is not None and task.cancelling() > 0


def members(group: BaseException) -> Sequence[BaseException]:
    """Return the exceptions of a group, which may be groups."""
    errors: Sequence[BaseException] = vars(BaseExceptionGroup)["exceptions"].__get__(group)
    return errors


def takes(function: Callable[..., Any], number: int) -> bool:
    """Return whether a function can be called with this number of arguments, by position.

    The answer is True for a callable whose signature nobody knows, such as some functions in C.
    """
    try:
        inspect.signature(function).bind(*range(number))
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def called_in(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that runs when a callable is called: without partials, and an object's method."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def makes_coroutine(function: Callable[..., Any]) -> bool:
    """Return whether a call only makes a coroutine, and runs nothing of it."""
    return any(map(inspect.iscoroutinefunction, (function, called_in(function))))


def makes_generator(function: Callable[..., Any]) -> bool:
    """Return whether a call only makes a generator, and runs nothing of it."""
    functions = (function, called_in(function))
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in functions)


def put_back(variable: ContextVar[Any], token: Token[Any]) -> None:
    """Give a context variable its value from before a user's ``with`` block, if this context still has it.

    The block may end in another context than it began in: FastAPI runs the two halves of a blocking
    dependency in two copies of a context, and a task may close what another task has opened. The end of the
    block cannot reach the first context, and changes nothing then.
    """
    try:
        variable.reset(token)
    except ValueError:
        return
