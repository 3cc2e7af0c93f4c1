"""One Redis connection for the blocking and the asyncio form of everything that lives in Redis."""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any, TypeVar, cast
from urllib.parse import quote

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
)

from history.bridge import settled
from history.errors import ConfigurationError, HistoryUnavailableError

T = TypeVar("T")

#: How long a connection or an answer may take before the server counts as away, in seconds.
TIMEOUT = 5.0

#: The names of all triggers with something in this Redis.
TRIGGERS_KEY = "doubtless:triggers"

#: The scripts that write to the buckets of completed entries, and so need ``buckets.lua``.
WRITES_BUCKETS = {"claim_batch", "settle", "take_over", "settle_batch", "forget"}

#: What redis-py raises when the server cannot answer now but may answer later.
AWAY = (
    redis.ConnectionError,
    redis.TimeoutError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
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
    """

    def __init__(self, client: Any, url: str | None = None) -> None:
        self.client = client
        self.url = url
        self._scripts: dict[str, tuple[str, str]] = {}

    @classmethod
    def from_url(cls, url: str, *, asyncio: bool = False) -> "RedisClient":
        """Make a client for ``url``; nothing is connected yet."""
        kind = redis.asyncio.Redis if asyncio else redis.Redis
        try:
            # A Retry of redis.asyncio and a blocking one are two classes, but both take these arguments.
            retry_class: Any = redis.asyncio.retry.Retry if asyncio else redis.retry.Retry
            client = kind.from_url(
                url,
                socket_timeout=TIMEOUT,
                socket_connect_timeout=TIMEOUT,
                retry=retry_class(NoBackoff(), 0),
            )
        except ValueError as error:
            raise ConfigurationError("history", str(error), "use redis://host:6379/0") from error
        return cls(client, url)

    def for_asyncio(self) -> "RedisClient":
        """Return a client of the same server for asyncio."""
        if self.is_asyncio:
            return self
        if self.url is None:
            raise ConfigurationError(
                "history", "a client that was handed over cannot be turned into an asyncio one", "give a URL"
            )
        return RedisClient.from_url(self.url, asyncio=True)

    @property
    def is_asyncio(self) -> bool:
        """Whether calls must be awaited."""
        return isinstance(self.client, redis.asyncio.Redis)

    async def call(self, doing: str, command: Callable[[], Awaitable[T] | T]) -> T:
        """Run one command that may be sent twice; open a lost connection once.

        Raises:
            HistoryUnavailableError: the server is away.
        """
        try:
            return await settled(command())
        except (BusyLoadingError, redis.TimeoutError) as error:
            raise HistoryUnavailableError(doing) from error
        except redis.ConnectionError:
            return await self._call_again(doing, command)
        except AWAY as error:
            raise HistoryUnavailableError(doing) from error

    async def _call_again(self, doing: str, command: Callable[[], Awaitable[T] | T]) -> T:
        try:
            return await settled(command())
        except AWAY as error:
            raise HistoryUnavailableError(doing) from error

    async def script(self, name: str, keys: list[str], arguments: list[Any]) -> Any:
        """Run a script of ``history/lua`` by its digest; load it where the server does not have it."""
        sha, text = self._script(name)
        return await self.call(name, lambda: self._evaluate(sha, text, keys, arguments))

    async def _evaluate(self, sha: str, text: str, keys: list[str], arguments: list[Any]) -> Any:
        try:
            return await settled(self.client.evalsha(sha, len(keys), *keys, *arguments))
        except NoScriptError:
            return await settled(self.client.eval(text, len(keys), *keys, *arguments))

    def _script(self, name: str) -> tuple[str, str]:
        if name not in self._scripts:
            folder = files("history") / "lua"
            parts = ["common", "buckets", name] if name in WRITES_BUCKETS else ["common", name]
            text = "\n".join((folder / f"{part}.lua").read_text(encoding="utf-8") for part in parts)
            self._scripts[name] = (sha1(text), text)
        return self._scripts[name]

    async def close(self) -> None:
        """Close the connections."""
        close = getattr(self.client, "aclose", None) if self.is_asyncio else self.client.close
        await settled(cast("Callable[[], Awaitable[None] | None]", close)())


def sha1(text: str) -> str:
    """Return the name that Redis gives a script."""
    from hashlib import sha1 as digest  # noqa: PLC0415  (only the name Redis uses, not a safeguard)

    return digest(text.encode(), usedforsecurity=False).hexdigest()
