"""One Redis client for the blocking and the asyncio form of everything that lives in Redis."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast
from urllib.parse import quote

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ClusterError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    TryAgainError,
)

from history.bridge import settled
from history.errors import ConfigurationError, HistoryUnavailableError
from history.redis_wires import Wires

T = TypeVar("T")

#: How long a connection or an answer may take before the server counts as away, in seconds.
TIMEOUT = 5.0

#: The names of all triggers with something in this Redis.
TRIGGERS_KEY = "doubtless:triggers"

#: What redis-py raises when the server cannot answer now but may answer later.
AWAY = (
    redis.ConnectionError,
    redis.TimeoutError,
    ClusterError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    TryAgainError,
)


def keys_of(trigger: str, *names: str) -> list[str]:
    """Return a trigger's keys. They share a hash tag, so that Redis Cluster keeps them in one slot."""
    tag = "doubtless:{" + quote(trigger, safe="") + "}:"
    return [tag + name for name in names]


class RedisClient:
    """A redis-py client, blocking or asyncio, whose retries are ours.

    redis-py's own retries are switched off: it would send a command again whose reply was lost, and take its
    own first write for somebody else's. Here a lost connection is opened again once, and only for calls that
    may be sent twice; everything the history writes may.

    Raises:
        ConfigurationError: the client decodes replies, but what is stored is bytes that are no text.
    """

    def __init__(self, client: Any, url: str | None = None) -> None:
        if client.get_encoder().decode_responses:
            raise ConfigurationError(
                "history", "its Redis client is one with decode_responses=True", "leave that out"
            )
        self.client = client
        self.url = url
        self.is_asyncio = isinstance(client, redis.asyncio.Redis | redis.asyncio.RedisCluster)
        self.is_cluster = isinstance(client, redis.RedisCluster | redis.asyncio.RedisCluster)
        #: None for a cluster, whose client has a pool for each node, and finds the node by the key.
        self.wires = None if self.is_cluster else Wires(client.connection_pool, waits=self.is_asyncio)

    @classmethod
    def from_url(cls, url: str, *, asyncio: bool = False) -> "RedisClient":
        """Make a client for ``url``; nothing is connected yet."""
        return cls(_connect(url, asyncio=asyncio), url)

    def for_asyncio(self) -> "RedisClient":
        """Return a client of the same server for asyncio."""
        if self.is_asyncio:
            return self
        if self.url is None:
            raise ConfigurationError(
                "history", "a client that was handed over cannot be turned into an asyncio one", "give a URL"
            )
        return RedisClient.from_url(self.url, asyncio=True)

    async def call(self, doing: str, command: Callable[[], Awaitable[T] | T]) -> T:
        """Run one command that may be sent twice; open a lost connection once.

        Raises:
            HistoryUnavailableError: the server is away.
        """
        try:
            return await settled(command())
        except AWAY as error:
            return await self.call_again(doing, command, error)

    async def call_again(self, doing: str, command: Callable[[], Awaitable[T] | T], error: Exception) -> T:
        """Run a command once more, if ``error`` says that only its connection was lost.

        Raises:
            HistoryUnavailableError: the server is away.
        """
        if isinstance(error, BusyLoadingError) or not isinstance(error, redis.ConnectionError):
            raise HistoryUnavailableError(doing) from error
        try:
            return await settled(command())
        except AWAY as again:
            raise HistoryUnavailableError(doing) from again

    async def close(self) -> None:
        """Close the connections."""
        if self.wires is not None:
            await self.wires.close()
        close = self.client.aclose if self.is_asyncio else self.client.close
        await settled(cast("Callable[[], Awaitable[None] | None]", close)())


def _connect(url: str, *, asyncio: bool) -> Any:
    # As Any, because redis-py leaves the keywords of from_url untyped.
    kind: Any = redis.asyncio.Redis if asyncio else redis.Redis
    retry: Any = redis.asyncio.retry.Retry if asyncio else redis.retry.Retry
    try:
        return kind.from_url(
            url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, retry=retry(NoBackoff(), 0)
        )
    except ValueError as error:
        raise ConfigurationError("history", str(error), "use redis://host:6379/0") from error
