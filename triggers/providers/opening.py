"""From a URL to a provider."""

from urllib.parse import urlsplit

from history.errors import ConfigurationError
from triggers.providers.provider import Provider

#: What :func:`open_provider` understands, for its errors and for ``--help``.
PROVIDER_URLS = "redis://host:6379/0 (Redis Streams), rediss://... or memory://"


def open_provider(url: str) -> Provider:
    """Open the provider at ``url``; nothing is connected before the first use.

    Raises:
        ConfigurationError: the scheme is unknown.
    """
    match urlsplit(url).scheme:
        case "redis" | "rediss" | "unix":
            from triggers.providers.redis_streams import RedisStreams  # noqa: PLC0415  (a driver, when asked for)

            return RedisStreams.from_url(url)
        case "memory":
            from triggers.providers.memory import MemoryProvider  # noqa: PLC0415  (as above)

            return MemoryProvider()
        case scheme:
            raise ConfigurationError("provider", f"unknown URL scheme {scheme!r}", f"use {PROVIDER_URLS}")
