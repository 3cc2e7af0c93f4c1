"""From a URL to a provider."""

from importlib import import_module
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl

from history.errors import ConfigurationError
from history.support.forks import without_forks
from history.support.references import dereferenced
from history.support.tls import warn_of_open_line
from history.support.urls import guarded, refuse_unknown, split_url
from triggers.providers.provider import Provider

#: The URLs that :func:`open_provider` understands, for its errors and for ``--help``.
PROVIDER_URLS = (
    "redis://host:6379/0 (Redis Streams), rediss://..., redis+sentinel://a,b,c/service/0, "
    "redis+cluster://a,b,c, sqlite:///file.db or postgresql://user@host/database "
    "(SQL-JMS), kafka://host:9092, nats://host:4222, sqs://region/queue, rabbitmq://user@host/vhost, "
    "amqp://user@host (AMQP 1.0), "
    "jms+tcp://user@host:61616?factory=CLASS&classpath=JARS (JMS), "
    "sqlremote:links.toml (SQL Remote) or memory://"
)

#: The package and the class of a scheme. A package imports its driver, so it is loaded when it is asked for.
_CLASSES = {
    **dict.fromkeys(("redis", "rediss", "unix"), ("redis_streams", "RedisStreams")),
    **dict.fromkeys(("sqlite", "postgresql", "postgres"), ("sqljms", "SqlJms")),
    **dict.fromkeys(("rabbitmq", "rabbitmqs"), ("rabbitmq", "RabbitMQ")),
    **dict.fromkeys(("kafka", "kafkas"), ("kafka", "Kafka")),
    **dict.fromkeys(("nats", "natss"), ("nats", "Nats")),
    **dict.fromkeys(("amqp", "amqps"), ("amqp", "Amqp")),
    "sqs": ("sqs", "Sqs"),
    "jms": ("jms", "JmsProvider"),
}

#: Schemes that a word may follow, as in ``redis+sentinel://``.
_FAMILIES = {"redis", "rediss", "unix", "jms"}


def open_provider(url: str) -> Provider:
    """Open the provider at ``url``; it connects at the first use.

    Raises:
        ConfigurationError: the scheme is unknown.
    """
    url = dereferenced(url, "provider")
    with guarded(url, "provider"), without_forks():
        provider = _open(url)
        warn_of_open_line(url, "provider")
        return provider


def _open(url: str) -> Provider:
    scheme = split_url(url).scheme
    if scheme == "sqlremote":
        from triggers.providers.sqlremote.links import Links  # noqa: PLC0415  (when asked for, as the others)

        file = Path(url.removeprefix("sqlremote:").removeprefix("//"))
        return Links.from_file(file, open_provider=open_provider)
    if scheme == "memory":
        from triggers.providers.memory import MemoryProvider  # noqa: PLC0415  (as above)

        query = url.partition("?")[2]
        refuse_unknown([option for option, _ in parse_qsl(query, keep_blank_values=True)], (), "provider")
        return MemoryProvider()
    family = scheme.partition("+")[0]
    if scheme not in _CLASSES and family not in _FAMILIES:
        raise ConfigurationError("provider", f"unknown URL scheme {scheme!r}", f"use {PROVIDER_URLS}")
    module, name = _CLASSES[family]
    provider = getattr(import_module(f"triggers.providers.{module}.provider"), name)
    return cast("Provider", provider.from_url(url))
