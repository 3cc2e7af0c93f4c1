"""What can be set on the Kafka provider, and the names it gives things."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from history.errors import ConfigurationError
from triggers.providers.brokers.url import BrokerUrl, TlsFiles

Start = Literal["earliest", "latest"]

#: How the login's secret is proved, as Kafka spells it.
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_EXAMPLE = "kafka://user:password@host:9092"

#: How often a consumer says that it lives, in milliseconds, at most: by the answer it hears of a rebalance.
_BEAT = 3000

#: In how many parts of the session's time a consumer says that it lives.
_BEATS = 10

#: How large a message may be, in bytes; a topic's own limit is less by default.
LARGEST = 10_000_000

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """The settings; they stand in the URL's query.

    - ``group``: the consumer group of all triggers of this provider; left out, a trigger's own is
      ``DESTINATION:SUBSCRIPTION``. A group reads each message once, so triggers that share a topic and a
      group share its messages.
    - ``start``: where a group begins that never committed anything: ``earliest`` (the default), with all that
      the topic still has, or ``latest``, with what is sent from now on.
    - ``mechanism`` of the login: ``PLAIN`` (the default), ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
    - ``heartbeat``: after how many seconds of silence the group gives a consumer's partitions to others.
    """

    group: str | None = None
    start: Start = "earliest"
    mechanism: Mechanism = "PLAIN"

    @classmethod
    def from_url(cls, url: str) -> tuple[Self, BrokerUrl]:
        """Read a URL.

        Raises:
            ConfigurationError: it is none, or a setting has no such value.
        """
        read = BrokerUrl.read(
            url, example=_EXAMPLE, ports=(9092, 9093), known={"group", "start", "mechanism"}
        )
        settings: dict[str, Any] = dict(read.options)
        if settings.get("start", "earliest") not in {"earliest", "latest"}:
            raise ConfigurationError("start", f"{settings['start']!r} is unknown", "give earliest or latest")
        settings["mechanism"] = settings.get("mechanism", "PLAIN").upper()
        if settings["mechanism"] not in _MECHANISMS:
            raise ConfigurationError(
                "mechanism", f"{settings['mechanism']!r} is unknown", f"give {', '.join(_MECHANISMS)}"
            )
        if settings.get("group") == "":
            raise ConfigurationError("group", "is empty", "name a group, or leave it out")
        if read.path:
            raise ConfigurationError(
                "provider", f"has the path {read.path!r} in its URL", "name the topic in the trigger"
            )
        return cls(**settings), read

    def group_of(self, destination: str, subscription: str) -> str:
        """Name the consumer group of a subscription."""
        return self.group or f"{destination}:{subscription}"


def dead_letters_of(destination: str) -> str:
    """Name the topic of the dead letters of a topic."""
    return f"DLQ.{destination}"


def connecting(url: BrokerUrl, settings: KafkaSettings) -> dict[str, Any]:
    """Return what librdkafka needs to connect."""
    found: dict[str, Any] = {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in url.hosts),
        "client.id": "doubtless",
        "security.protocol": _protocol(url),
    }
    if url.user is not None and not url.external:
        found |= {
            "sasl.mechanism": settings.mechanism,
            "sasl.username": url.user,
            "sasl.password": url.password or "",
        }
    if url.tls is not None:
        found |= _files(url.tls)
    return found


def _protocol(url: BrokerUrl) -> str:
    login = url.user is not None and not url.external
    return ("SASL_" if login else "") + ("PLAINTEXT" if url.tls is None else "SSL")


def _files(tls: TlsFiles) -> dict[str, str]:
    named = {
        "ssl.ca.location": tls.cafile,
        "ssl.certificate.location": tls.certfile,
        "ssl.key.location": tls.keyfile,
    }
    return {name: file for name, file in named.items() if file is not None}


def consuming(url: BrokerUrl, settings: KafkaSettings, group: str, name: str) -> dict[str, Any]:
    """Return the settings of a member of a group, which commits by itself what it has settled."""
    session = url.heartbeat * 1000
    return connecting(url, settings) | {
        "group.id": group,
        "client.id": name,
        "auto.offset.reset": settings.start,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session,
        "heartbeat.interval.ms": min(_BEAT, session // _BEATS),
        "isolation.level": "read_committed",
        "allow.auto.create.topics": True,
        "queued.min.messages": 1000,
    }


def producing(url: BrokerUrl, settings: KafkaSettings, patience: float) -> dict[str, Any]:
    """Return the settings of a producer, whose own repetitions arrive once."""
    return connecting(url, settings) | {
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 2,
        "partitioner": "murmur2_random",
        "delivery.timeout.ms": round(patience * 1000),
        "message.max.bytes": LARGEST,
    }
