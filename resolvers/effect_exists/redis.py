"""Does a key exist? It asks with EXISTS."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.exceptions import ClusterDownError, MasterDownError

from history.bridge import settled
from history.errors import ConfigurationError
from resolvers.effect_exists.probe import EffectUnavailableError, Location, placeholders
from resolvers.resolution import Resolution, Resolved

#: How long a connection or an answer may take with a client of our own.
TIMEOUT = timedelta(seconds=5)

#: Errors of redis-py if the server cannot answer now but may answer later.
_AWAY = (redis.ConnectionError, redis.TimeoutError, ClusterDownError, MasterDownError)

_SETTING = "redis_key_exists"


class RedisKey:
    """Looks for a key. With a URL, each question opens and closes a connection."""

    def __init__(
        self, server: "str | redis.Redis | redis.asyncio.Redis", template: str, *, absent: Resolution
    ) -> None:
        self._server = server
        self.awaits = isinstance(server, redis.asyncio.Redis)
        self._template = template
        where = f"{_redacted(server) if isinstance(server, str) else 'Redis'} key {template}"
        self.location = Location(where, placeholders(_SETTING, template), absent)

    async def look(self, identities: Mapping[str, str], uuid: str) -> Resolved:
        """Ask for the key."""
        key = self._template.format_map(identities)
        try:
            there = await self._exists(key)
        except _AWAY as error:
            raise EffectUnavailableError(self.location.name, uuid, type(error).__name__) from error
        return self.location.has_it() if there else self.location.lacks_it()

    async def _exists(self, key: str) -> int:
        if not isinstance(self._server, str):
            return await settled(self._server.exists(key))
        with _connected(self._server) as client:
            count: int = client.exists(key)
            return count


def _connected(url: str) -> redis.Redis:
    """Make a client; it connects at its first command."""
    seconds = TIMEOUT.total_seconds()
    client_class: Any = redis.Redis  # from_url has no types
    return cast(
        "redis.Redis", client_class.from_url(url, socket_timeout=seconds, socket_connect_timeout=seconds)
    )


def _redacted(url: str) -> str:
    """Return a URL that works, without user, password and options."""
    try:
        _connected(url).close()
    except ValueError:
        # Without its cause, because its text may contain the URL, and the URL a password.
        raise ConfigurationError(
            _SETTING, "its first argument is not a Redis URL", "write redis://host:6379/0"
        ) from None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
