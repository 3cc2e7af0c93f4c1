"""Checks of the options that only the HTTP guard has."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from history.errors import ConfigurationError
from history.identity import Key
from history.support.rendering import shown
from triggers.guards.http.request import Request
from triggers.service.checking import check_duration, check_switch, check_takes, check_whole

#: Tells callers apart.
Caller = Callable[[Request], Awaitable[Key] | Key]

#: Says whether a caller may have the first answer.
Authorize = Callable[[Request], bool | Awaitable[bool]]


def check_options(history: Any, scope: Any, authorize: Any, methods: Any) -> None:
    """Refuse a missing history, functions that no request can be passed to, and anything but methods.

    Raises:
        ConfigurationError: naming the first one.
    """
    if history is None:
        raise ConfigurationError("history", "it is None, and answers are kept in it", "give a URL or a store")
    if scope is not None:
        check_takes("scope", scope, "one request", remedy="give a function of the request")
    if authorize is not None:
        remedy = "give a function of the request that returns whether its caller may have the answer"
        check_takes("authorize", authorize, "one request", remedy=remedy)
    is_list = isinstance(methods, Collection) and not isinstance(methods, str | bytes)
    listed: list[Any] = list(methods) if is_list else []  # pyright: ignore[reportUnknownArgumentType]
    if not listed or not all(isinstance(method, str) and method for method in listed):
        problem = f"{shown(methods)} is not a set of methods"  # pyright: ignore[reportUnknownArgumentType]
        raise ConfigurationError("methods", problem, 'give a set, such as {"POST", "PATCH"}')


def check_limits(required: Any, wait: Any, request_limit: Any, answer_limit: Any, keys_per_hour: Any) -> None:
    """Refuse a switch that is none, a wait that is not a duration, and limits that are not whole numbers.

    Raises:
        ConfigurationError: naming the first one.
    """
    check_switch("required", required)
    if wait is not None:
        check_duration("wait", wait, none=True)
    check_whole("request_limit", request_limit, 0)
    check_whole("answer_limit", answer_limit, 0)
    if keys_per_hour is not None:
        check_whole("keys_per_hour", keys_per_hour, 1)
