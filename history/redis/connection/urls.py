"""From a URL to a redis-py client, blocking or asyncio, that never repeats a command by itself."""

import inspect
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from threading import TIMEOUT_MAX
from typing import Any
from urllib.parse import parse_qsl

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.retry
from redis.backoff import NoBackoff

from history.circuit import is_on
from history.errors import ConfigurationError
from history.redis.connection.deployments import (
    LARGEST,
    UNBOUNDED,
    check_database,
    open_cluster,
    open_sentinel,
)
from history.redis.connection.probe import pool_of
from history.support.urls import guarded, is_number_in, split_option, split_url

#: Our own options of every URL, in addition to redis-py's.
OWN_OPTIONS = ("circuit", "durability")

#: The options of a URL that are times.
_TIMEOUTS = ("socket_timeout", "socket_connect_timeout")

#: The options of a URL that are whole numbers, each with the least that makes sense.
_NUMBERS = {"db": 0, "health_check_interval": 0, "max_connections": 1, "socket_read_size": 1}

#: The options of redis-py that are objects; a URL can only hold their text, on which a connection would fail.
_OBJECTS = frozenset(
    {
        "command_packer",
        "credential_provider",
        "encoder_class",
        "event_dispatcher",
        "maint_notifications_config",
        "oss_cluster_maint_notifications_handler",
        "parser_class",
        "redis_connect_func",
        "retry",
        "retry_on_error",
        "socket_keepalive_options",
        "socket_type",
    }
)

_UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")

#: The advice for a URL that cannot be used.
REMEDY = "use redis://host:6379/0, redis+sentinel://a,b,c/service/0 or redis+cluster://a,b,c"


def open_client(
    url: str, *, setting: str, asyncio: bool, connect: float, answer: float, options: Sequence[str] = ()
) -> Any:
    """Make a client with this time-out for connecting and for an answer; it does not connect yet.

    ``options`` were taken out of the URL by the caller, for the error about an unknown one.

    Any, because redis-py leaves the keywords of ``from_url`` untyped, and its answers may be awaitable.

    Raises:
        ConfigurationError: it is not a valid URL, has a database that is not a number, or an unknown option.
    """
    with guarded(url, setting):
        try:
            return _open(url, setting=setting, asyncio=asyncio, connect=connect, answer=answer)
        except TypeError as error:
            if (unknown := _UNKNOWN.search(str(error))) is None:
                problem, remedy = f"its URL cannot be used: {error}", REMEDY
            else:
                problem, remedy = f"its URL has an unknown option {unknown[1]!r}", _meant(unknown[1], options)
            raise ConfigurationError(setting, problem, remedy) from error


def _open(url: str, *, setting: str, asyncio: bool, connect: float, answer: float) -> Any:
    _check_options(url, setting)
    retry: Any = redis.asyncio.retry.Retry if asyncio else redis.retry.Retry
    options = {"socket_timeout": answer, "socket_connect_timeout": connect, "retry": retry(NoBackoff(), 0)}
    try:
        client = _opener(url, setting)(url, setting=setting, asyncio=asyncio, **options)
        if (pool := pool_of(client)) is not None:
            # Making a connection finds options that redis-py does not know, without connecting.
            pool.connection_class(**pool.connection_kwargs)
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(setting, str(error), REMEDY) from error
    except redis.RedisError as error:
        raise ConfigurationError(setting, f"its URL cannot be used: {error}", REMEDY) from error
    for name in _TIMEOUTS:
        seconds = split_option(url, name)[1]
        if seconds and not 0 < float(seconds) <= TIMEOUT_MAX:  # with 0, a socket does not wait at all
            problem = f"{name} in its URL must be a number of seconds greater than 0, not {seconds!r}"
            raise ConfigurationError(setting, problem, "correct it, or leave it out")
    return client


def _check_options(url: str, setting: str) -> None:
    """Refuse what redis-py, a socket or the server would refuse at the first use."""
    given = parse_qsl(split_url(url).query, keep_blank_values=True)
    for name in (name for name, _ in given if name in _OBJECTS):
        problem = f"{name} in its URL cannot be used: it is not a text or a number"
        raise ConfigurationError(setting, problem, "leave it out")
    for name, least in _NUMBERS.items():
        text = split_option(url, name)[1]
        if text and not is_number_in(text, range(least, LARGEST + 1)):
            problem = f"{name} in its URL must be a whole number from {least} to {LARGEST}, not {text[:50]!r}"
            raise ConfigurationError(setting, problem, REMEDY)


def _meant(name: str, options: Sequence[str]) -> str:
    names = {*options, *OWN_OPTIONS}
    for kind in redis.Connection.__mro__:
        if (init := vars(kind).get("__init__")) is not None and kind is not object:
            names.update(inspect.signature(init).parameters)
    near = get_close_matches(name, names)
    return (
        f"did you mean {near[0]}?"
        if near
        else f"use {', '.join(sorted({*options, *OWN_OPTIONS}))}, or leave it out"
    )


def _opener(url: str, setting: str) -> Callable[..., Any]:
    _, _, deployment = split_url(url).scheme.partition("+")
    openers = {"": _open_single, "sentinel": open_sentinel, "cluster": open_cluster}
    if deployment not in openers:
        raise ConfigurationError(
            setting, f"its URL begins with an unknown kind of Redis, {deployment!r}", REMEDY
        )
    return openers[deployment]


def _open_single(url: str, *, setting: str, asyncio: bool, **options: Any) -> Any:
    parts = split_url(url)
    if parts.scheme != "unix":
        check_database(parts.path.strip("/"), setting, REMEDY)
    kind: Any = redis.asyncio.Redis if asyncio else redis.Redis
    return kind.from_url(url, max_connections=UNBOUNDED, **options)  # options of the URL win


def split_circuit(url: str) -> tuple[str, bool]:
    """Return a URL without ``circuit=on|off``, which redis-py does not know, and whether the circuit is on.

    Raises:
        ConfigurationError: the value is neither on nor off.
    """
    rest, circuit = split_option(url, "circuit")
    return rest, True if circuit is None else is_on(circuit)
