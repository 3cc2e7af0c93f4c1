"""Did the effect happen? Ready-made resolvers that look at the place of the service's effect.

Each takes ``absent``, the answer if the effect is not found. NEW, the default, is right only if both
conditions hold. First, the effect is the last step of the service, or is written in one transaction with all
the others. Otherwise a service that died half way would run again over its own first half. Second, no earlier
run can still be at work. Otherwise the effect may appear a moment later: set a ``lease`` longer than the
service takes. If one of them does not hold, use ``absent=Resolution.IN_DOUBT``.

A driver is imported when its resolver is made, not before: ``http.py``, ``redis.py``, ``spark.py`` and
``sql.py`` ask one kind of place each, and ``probe.py`` is shared.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, overload

from history.errors import MissingExtraError
from resolvers.effect_exists.probe import (
    AsyncEffectResolver,
    BlockingEffectResolver,
    EffectUnavailableError,
    Probe,
)
from resolvers.resolution import Resolution

if TYPE_CHECKING:
    import httpx
    import redis
    import redis.asyncio
    from pyspark.sql import DataFrame
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    from resolvers.effect_exists.spark import SparkRows

__all__ = [
    "AsyncEffectResolver",
    "BlockingEffectResolver",
    "EffectUnavailableError",
    "http_resource_exists",
    "redis_key_exists",
    "spark_rows_exist",
    "sql_row_exists",
]


@overload
def sql_row_exists(
    engine: "str | Engine", statement: str, *, absent: Resolution = ...
) -> BlockingEffectResolver: ...
@overload
def sql_row_exists(
    engine: "AsyncEngine", statement: str, *, absent: Resolution = ...
) -> AsyncEffectResolver: ...
def sql_row_exists(
    engine: "str | Engine | AsyncEngine", statement: str, *, absent: Resolution = Resolution.NEW
) -> BlockingEffectResolver | AsyncEffectResolver:
    """Make a resolver: a row means DUPLICATE, no row means ``absent``.

    ``statement`` searches by the bind parameters ``:uuid``, ``:trigger_name``, ``:message_id`` and
    ``:correlation_id``, at least one of them not the trigger's name. A message without a used value is
    IN_DOUBT. With a URL, each question opens and closes a connection; the caller closes an engine.

    The resolver raises :class:`EffectUnavailableError` (transient) if the database does not answer or is
    busy, and ConfigurationError if it refuses the statement.

    Raises:
        ConfigurationError: the URL, the statement's parameters or ``absent`` cannot work.
    """
    from resolvers.effect_exists.sql import SqlRow  # noqa: PLC0415  (loads the driver)

    return _resolver(SqlRow(engine, statement, absent=absent))


@overload
def http_resource_exists(
    url: str,
    *,
    client: "httpx.Client | None" = ...,
    headers: Mapping[str, str] | None = ...,
    timeout: timedelta | None = ...,
    absent: Resolution = ...,
    redirect: Resolution = ...,
) -> BlockingEffectResolver: ...
@overload
def http_resource_exists(
    url: str,
    *,
    client: "httpx.AsyncClient",
    headers: Mapping[str, str] | None = ...,
    timeout: timedelta | None = ...,
    absent: Resolution = ...,
    redirect: Resolution = ...,
) -> AsyncEffectResolver: ...
def http_resource_exists(
    url: str,
    *,
    client: "httpx.Client | httpx.AsyncClient | None" = None,
    headers: Mapping[str, str] | None = None,
    timeout: timedelta | None = None,
    absent: Resolution = Resolution.NEW,
    redirect: Resolution = Resolution.DUPLICATE,
) -> BlockingEffectResolver | AsyncEffectResolver:
    """Make a resolver: the resource exists (2xx) means DUPLICATE, 404 and 410 mean ``absent``.

    ``url`` holds ``{uuid}``, ``{message_id}`` or ``{correlation_id}`` (and may hold ``{trigger_name}``) in
    its path or query; values are percent-encoded. A 3xx is not followed and means ``redirect``: use IN_DOUBT
    if the server sends strangers to a login page. Other 4xx, such as a missing permission, are IN_DOUBT.

    ``timeout`` is for each step of a request; None means the client's setting, or 10 seconds without a
    client. Without a ``client``, each question opens and closes a connection; the caller closes a client.

    The resolver raises :class:`EffectUnavailableError` (transient) for 5xx, 408, 425 and 429, a server that
    cannot be reached, and a time-out.

    Raises:
        ConfigurationError: the URL or ``absent`` cannot work, or (MissingExtraError) httpx is not installed.
    """
    try:
        from resolvers.effect_exists.http import HttpResource  # noqa: PLC0415  (loads the driver)
    except ModuleNotFoundError as error:
        raise MissingExtraError("http_resource_exists", extra="http", package="httpx") from error

    return _resolver(
        HttpResource(
            url, client=client, headers=headers or {}, timeout=timeout, absent=absent, redirect=redirect
        )
    )


@overload
def redis_key_exists(
    server: "str | redis.Redis", key: str, *, absent: Resolution = ...
) -> BlockingEffectResolver: ...
@overload
def redis_key_exists(
    server: "redis.asyncio.Redis", key: str, *, absent: Resolution = ...
) -> AsyncEffectResolver: ...
def redis_key_exists(
    server: "str | redis.Redis | redis.asyncio.Redis", key: str, *, absent: Resolution = Resolution.NEW
) -> BlockingEffectResolver | AsyncEffectResolver:
    """Make a resolver: the key exists means DUPLICATE, else ``absent``.

    ``key`` is a template like ``"booking:{uuid}"``, with the placeholders of :func:`http_resource_exists`;
    write a brace of the key itself twice. With a URL, each question opens and closes a connection.

    The resolver raises :class:`EffectUnavailableError` (transient) if the server does not answer.

    Raises:
        ConfigurationError: the URL, the template or ``absent`` cannot work.
    """
    from resolvers.effect_exists.redis import RedisKey  # noqa: PLC0415  (loads the driver)

    return _resolver(RedisKey(server, key, absent=absent))


def spark_rows_exist(
    effects: "str | Callable[[], DataFrame]", column: str, *, absent: Resolution = Resolution.NEW
) -> "SparkRows":
    """Make a resolver of DataFrames for Spark: a row with the identity means DUPLICATE, else ``absent``.

    ``effects`` is the name of a table or view, or a function that returns a DataFrame, such as ``lambda:
    spark.read.parquet(path)``; ``column`` holds the identities. One join answers for all rows of a batch, so
    it sees everything that was committed before the batch came again.

    Raises:
        ConfigurationError: ``absent`` cannot work, or (MissingExtraError) pyspark is not installed.
    """
    try:
        from resolvers.effect_exists.spark import spark_rows  # noqa: PLC0415  (loads the driver)
    except ModuleNotFoundError as error:
        raise MissingExtraError("spark_rows_exist", extra="spark", package="pyspark") from error

    return spark_rows(effects, column, absent=absent)


def _resolver(probe: Probe) -> BlockingEffectResolver | AsyncEffectResolver:
    return AsyncEffectResolver(probe) if probe.awaits else BlockingEffectResolver(probe)
