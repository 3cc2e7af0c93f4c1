"""From a URL to a provider."""

from pathlib import Path
from urllib.parse import parse_qsl

from history.errors import ConfigurationError
from history.support.forks import without_forks
from history.support.references import dereferenced
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


def open_provider(url: str) -> Provider:
    """Open the provider at ``url``; it connects at the first use.

    Raises:
        ConfigurationError: the scheme is unknown.
    """
    url = dereferenced(url, "provider")
    with guarded(url, "provider"), without_forks():
        return _open(url)


def _open(url: str) -> Provider:  # noqa: C901, PLR0911  (one for each kind)
    match split_url(url).scheme:
        case scheme if scheme.partition("+")[0] in {"redis", "rediss", "unix"}:
            from triggers.providers.redis_streams.provider import RedisStreams  # noqa: PLC0415  (a driver, when asked for)

            return RedisStreams.from_url(url)
        case scheme if scheme == "jms" or scheme.startswith("jms+"):
            from triggers.providers.jms.provider import JmsProvider  # noqa: PLC0415  (as above)

            return JmsProvider.from_url(url)
        case "sqlite" | "postgresql" | "postgres":
            from triggers.providers.sqljms.provider import SqlJms  # noqa: PLC0415  (as above)

            return SqlJms.from_url(url)
        case "rabbitmq" | "rabbitmqs":
            from triggers.providers.rabbitmq.provider import RabbitMQ  # noqa: PLC0415  (as above)

            return RabbitMQ.from_url(url)
        case "kafka" | "kafkas":
            from triggers.providers.kafka.provider import Kafka  # noqa: PLC0415  (as above)

            return Kafka.from_url(url)
        case "nats" | "natss":
            from triggers.providers.nats.provider import Nats  # noqa: PLC0415  (as above)

            return Nats.from_url(url)
        case "sqs":
            from triggers.providers.sqs.provider import Sqs  # noqa: PLC0415  (as above)

            return Sqs.from_url(url)
        case "sqlremote":
            from triggers.providers.sqlremote.links import Links  # noqa: PLC0415  (as above)

            return Links.from_file(
                Path(url.removeprefix("sqlremote:").removeprefix("//")), open_provider=open_provider
            )
        case "amqp" | "amqps":
            from triggers.providers.amqp.provider import Amqp  # noqa: PLC0415  (as above)

            return Amqp.from_url(url)
        case "memory":
            from triggers.providers.memory import MemoryProvider  # noqa: PLC0415  (as above)

            query = url.partition("?")[2]
            refuse_unknown([option for option, _ in parse_qsl(query, keep_blank_values=True)], (), "provider")
            return MemoryProvider()
        case scheme:
            raise ConfigurationError("provider", f"unknown URL scheme {scheme!r}", f"use {PROVIDER_URLS}")
