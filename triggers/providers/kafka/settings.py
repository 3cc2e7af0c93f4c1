"""The settings of the Kafka provider, and the names that it makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

from history.errors import ConfigurationError
from triggers.providers.brokers.trust import KAFKA_SHARE, FirstCount, weighed
from triggers.providers.brokers.url import BrokerUrl, TlsFiles, whole_number

Start = Literal["earliest", "latest"]

#: The mechanism of the login, as Kafka spells it.
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

_EXAMPLE = "kafka://user:password@host:9092"

#: The longest interval between heartbeats, in milliseconds: their answers announce a rebalance.
_BEAT = 3000

#: The number of heartbeats within the session's time.
_BEATS = 10

#: The longest session that librdkafka allows, in seconds.
_LONGEST_SESSION = 3600

#: The usual time between two polls, in milliseconds.
_POLLING = 300_000

#: The largest message, in bytes; a topic's own limit is less by default. Consumers receive 100 MB at a time.
LARGEST = 50_000_000

#: The settings in a URL: of all groups, and of share groups only.
_OF_ALL = {"group", "start", "mechanism", "offsets"}
_OF_SHARING = {"share", "fetch", "record_lock", "delivery_limit", "first_count"}

#: All settings in a URL, including those of the producer.
_KNOWN = {*_OF_ALL, *_OF_SHARING, "transactional_id"}

#: The least value of each number: with a limit of one delivery, nothing could be redelivered.
_LEAST = {"fetch": 1, "record_lock": 1, "delivery_limit": 2}

_MECHANISMS = get_args(Mechanism)

_TAKEN_FROM_URL = "leave it out: hosts, account and TLS are parts of the URL"
_COMMITS = "leave it out: the consumer commits what is settled"

#: Settings of the client that a URL cannot change, and what to do instead.
_OURS = {
    "bootstrap.servers": _TAKEN_FROM_URL,
    "metadata.broker.list": _TAKEN_FROM_URL,
    "security.protocol": _TAKEN_FROM_URL,
    "sasl.username": _TAKEN_FROM_URL,
    "sasl.password": _TAKEN_FROM_URL,
    "sasl.mechanism": "use mechanism=",
    "sasl.mechanisms": "use mechanism=",
    "ssl.ca.location": "use cafile=",
    "ssl.certificate.location": "use certfile=",
    "ssl.key.location": "use keyfile=",
    "client.id": "leave it out: it is the consumer's name",
    "group.id": "use group=",
    "enable.auto.commit": _COMMITS,
    "enable.auto.offset.store": _COMMITS,
    "auto.commit.enable": _COMMITS,
    "enable.partition.eof": "leave it out: it is always on",
    "auto.commit.interval.ms": _COMMITS,
    "auto.offset.reset": "use start=",
    "isolation.level": "leave it out: messages of aborted transactions never run",
    "partition.assignment.strategy": "leave it out, or use group.protocol=consumer",
    "session.timeout.ms": "use heartbeat=",
    "heartbeat.interval.ms": "use heartbeat=",
    "max.poll.records": "use fetch=",
    "enable.idempotence": "leave it out: a message that the client repeats arrives once",
    "request.required.acks": "leave it out: all replicas in sync have a message when it is sent",
    "transactional.id": "use transactional_id=",
    "transaction.timeout.ms": "leave it out: it depends on the time of a delivery",
    "delivery.timeout.ms": "leave it out: a send waits for 30 seconds",
    "message.timeout.ms": "leave it out: a send waits for 30 seconds",
    "message.max.bytes": "leave it out: the topic has its own limit",
    "message.send.max.retries": "leave it out: a send waits for 30 seconds",
}

#: Settings of the classic protocol, which the brokers decide in the new one.
_CLASSIC = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """The settings, which the URL's query holds.

    - ``group``: the consumer group of all triggers of this provider; left out, a trigger's group is
      ``DESTINATION:SUBSCRIPTION``. A group reads each message once, so triggers that share a topic and a
      group share its messages.
    - ``start``: where a group begins that never committed anything: ``earliest`` (the default), with all that
      the topic still has, or ``latest``, with what is sent from now on.
    - ``offsets``: the URL of the SQL database of the effects, which then keeps the offsets: see
      :class:`~triggers.providers.kafka.KafkaWithOffsets`. In a URL, its ``&``, ``#`` and ``%`` are escaped.
    - ``mechanism`` of the login: ``PLAIN`` (the default), ``SCRAM-SHA-256``, ``SCRAM-SHA-512``, or
      ``OAUTHBEARER`` with the client's settings ``sasl.oauthbearer...``.
    - ``share``: ``true`` for a share group (KIP-932), with the settings below; left out, a consumer group.
    - ``fetch``: how many messages a consumer takes from a share group at a time; 10 by default. The next ones
      come when all of these are settled.
    - ``record_lock``: for how many seconds a consumer has a message to itself, which the brokers set
      (``share.record.lock.duration.ms`` of the group); 30 by default, as in Kafka.
    - ``delivery_limit``: after how many deliveries the brokers give a message up, which they set
      (``group.share.delivery.count.limit``); 5 by default, as in Kafka.
    - ``first_count``: how to treat a share group's count of 1, see
      :class:`~triggers.providers.brokers.trust.FirstCount`.
    - ``heartbeat``: after how many seconds of silence the group gives a consumer's partitions to others. The
      brokers decide that for a share group.
    - ``transactional_id``: a name for the producer of this URL; only one process may use it at a time. With
      it, all messages of one call are committed together, or none.
    - ``client``: options with a dot, such as ``compression.type=zstd``: settings of librdkafka, passed on.
    """

    group: str | None = None
    start: Start = "earliest"
    mechanism: Mechanism = "PLAIN"
    offsets: str | None = field(default=None, repr=False)
    share: bool = False
    fetch: int = 10
    record_lock: int = 30
    delivery_limit: int = 5
    first_count: FirstCount = FirstCount.WEIGHED
    transactional_id: str | None = None
    client: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @classmethod
    def from_url(cls, url: str) -> tuple[Self, BrokerUrl]:
        """Read a URL.

        Raises:
            ConfigurationError: it is not valid, or a setting has no such value.
        """
        read = BrokerUrl.read(url, example=_EXAMPLE, ports=(9092, 9093), known=_KNOWN, dotted=True)
        client = {name: value for name, value in read.options.items() if "." in name}
        settings: dict[str, Any] = {name: value for name, value in read.options.items() if name not in client}
        settings |= _sharing(dict(read.options))
        if settings.get("start", "earliest") not in {"earliest", "latest"}:
            raise ConfigurationError("start", f"{settings['start']!r} is unknown", "give earliest or latest")
        settings["mechanism"] = settings.get("mechanism", "PLAIN").upper()
        if settings["mechanism"] not in _MECHANISMS:
            raise ConfigurationError(
                "mechanism", f"{settings['mechanism']!r} is unknown", f"give {', '.join(_MECHANISMS)}"
            )
        if read.heartbeat > _LONGEST_SESSION:
            raise ConfigurationError(
                "heartbeat", f"is {read.heartbeat} seconds", f"give at most {_LONGEST_SESSION}"
            )
        if settings.get("group") == "":
            raise ConfigurationError("group", "is empty", "name a group, or leave it out")
        if settings.get("offsets") == "":
            raise ConfigurationError("offsets", "is empty", "give the URL of a SQL database, or leave it out")
        if read.path:
            raise ConfigurationError(
                "provider", f"has the path {read.path!r} in its URL", "name the topic in the trigger"
            )
        if settings.get("transactional_id") == "":
            raise ConfigurationError("transactional_id", "is empty", "give it a name, or leave it out")
        self = cls(**settings, client=client)
        check_client(read, self)
        return self, read

    def count_of(self, count: int) -> int:
        """Return the delivery count of a message, from the share group's count."""
        return weighed(count, redelivered=count > 1, profile=KAFKA_SHARE, first_count=self.first_count)

    def check_limit(self, max_delivery_count: int) -> None:
        """Refuse a trigger that would continue with a message after the brokers have given it up.

        Raises:
            ConfigurationError: it would.
        """
        if self.share and self.delivery_limit <= max_delivery_count:
            raise ConfigurationError(
                "max_delivery_count",
                f"is {max_delivery_count}, and the share group gives a message up after "
                f"{self.delivery_limit} deliveries: it would be lost",
                f"set it to {self.delivery_limit - 1} or less, or raise the brokers' "
                "group.share.delivery.count.limit and say so by delivery_limit in the URL",
            )

    def group_of(self, destination: str, subscription: str) -> str:
        """Name the consumer group of a subscription."""
        return self.group or f"{destination}:{subscription}"


def _sharing(options: dict[str, Any]) -> dict[str, Any]:
    """Read the settings of share groups."""
    share = options.get("share", "false").lower()
    if share not in {"true", "false"}:
        raise ConfigurationError("share", f"{options['share']!r} is unknown", "give true or false")
    share_options = sorted(options.keys() & _OF_SHARING - {"share"})
    if share == "false" and share_options:
        raise ConfigurationError(share_options[0], "is for a share group", "add share=true, or leave it out")
    for name in ("group.protocol", "group.instance.id"):
        if share == "true" and name in options:
            raise ConfigurationError(name, "is for a consumer group", "leave it, or share=true, out")
    if share == "true" and "start" in options:
        raise ConfigurationError(
            "start",
            "cannot be chosen by a consumer of a share group",
            "leave it out, and set share.auto.offset.reset of the group by kafka-configs.sh",
        )
    settings: dict[str, Any] = {
        name: whole_number(name, options[name], least=_LEAST[name])
        for name in share_options
        if name in _LEAST
    }
    if "first_count" in options:
        settings["first_count"] = FirstCount.read(options["first_count"])
    return {**settings, "share": share == "true"}


def dead_letters_of(destination: str) -> str:
    """Name the topic of the dead letters of a topic."""
    return f"DLQ.{destination}"


def connecting(url: BrokerUrl, settings: KafkaSettings) -> dict[str, Any]:
    """Return what librdkafka needs to connect, and the user's settings of it."""
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in url.hosts),
        "client.id": "doubtless",
        "security.protocol": _protocol(url, settings),
    }
    if _logs_in(url, settings):
        options["sasl.mechanism"] = settings.mechanism
        if settings.mechanism != "OAUTHBEARER":
            options["sasl.username"], options["sasl.password"] = url.user, url.password or ""
    if url.tls is not None:
        options |= _files(url.tls)
    return {**options, **settings.client}


def _logs_in(url: BrokerUrl, settings: KafkaSettings) -> bool:
    return not url.external and (url.user is not None or settings.mechanism == "OAUTHBEARER")


def _protocol(url: BrokerUrl, settings: KafkaSettings) -> str:
    login = _logs_in(url, settings)
    return ("SASL_" if login else "") + ("PLAINTEXT" if url.tls is None else "SSL")


def _files(tls: TlsFiles) -> dict[str, str]:
    named = {
        "ssl.ca.location": tls.cafile,
        "ssl.certificate.location": tls.certfile,
        "ssl.key.location": tls.keyfile,
    }
    return {name: file for name, file in named.items() if file is not None}


def consuming(url: BrokerUrl, settings: KafkaSettings, group: str, name: str) -> dict[str, Any]:
    """Return the settings of a member of a group, which commits itself what it has settled.

    ``name`` ends with the number of the worker, and so does the id of a static member.
    """
    session = url.heartbeat * 1000
    usual = {
        "allow.auto.create.topics": True,
        # A thread polls all the time, and librdkafka wants this to be at least the session's time.
        "max.poll.interval.ms": max(_POLLING, session),
        "queued.min.messages": 1000,
        # A full queue would otherwise be looked at once a second, and be empty for most of that second.
        "fetch.queue.backoff.ms": 10,
    }
    options: dict[str, Any] = {
        **usual,
        **connecting(url, settings),
        "group.id": group,
        "client.id": name,
        # We choose where a new group begins; this only applies when retention deleted that place meanwhile.
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session,
        "heartbeat.interval.ms": min(_BEAT, session // _BEATS),
        "isolation.level": "read_committed",
    }
    if settings.client.get("group.protocol") == "consumer":  # KIP-848
        options = {name: value for name, value in options.items() if name not in _CLASSIC}
    if (seat := settings.client.get("group.instance.id")) is not None:
        options["group.instance.id"] = f"{seat}-{name.rpartition('-')[2]}"
    return options


def sharing(url: BrokerUrl, settings: KafkaSettings, group: str, name: str) -> dict[str, Any]:
    """Return the settings of a member of a share group; the brokers hold the others."""
    return connecting(url, settings) | {
        "group.id": group,
        "client.id": name,
        "max.poll.records": settings.fetch,
    }


def producing(url: BrokerUrl, settings: KafkaSettings, patience: float) -> dict[str, Any]:
    """Return the settings of a producer; messages that it repeats by itself arrive once."""
    usual = {"linger.ms": 2, "partitioner": "murmur2_random"}
    return {
        **usual,
        **connecting(url, settings),
        "enable.idempotence": True,
        "acks": "all",
        "delivery.timeout.ms": round(patience * 1000),
        "message.max.bytes": LARGEST,
    }


def check_client(url: BrokerUrl, settings: KafkaSettings) -> None:
    """Check the settings that are passed on to librdkafka, together with ours.

    Raises:
        ConfigurationError: doubtless decides about a setting, or librdkafka refuses it.
    """
    for name in settings.client:
        if (remedy := _OURS.get(name)) is not None:
            raise ConfigurationError(name, "is not yours to set", remedy)
    if not settings.client:
        return
    from triggers.providers.kafka.driver import driver, made  # noqa: PLC0415  (settings are also only read)
    from triggers.providers.kafka.publisher import PATIENCE  # noqa: PLC0415  (as above)

    clients = [(driver.Producer, producing(url, settings, PATIENCE))]
    if not settings.share:
        clients.append((driver.Consumer, consuming(url, settings, "checked", "checked-1")))
    elif hasattr(driver, "ShareConsumer"):  # else joining says so
        clients.append((driver.ShareConsumer, sharing(url, settings, "checked", "checked-1")))
    online = connecting(url, replace(settings, client={}))
    for make, options in clients:  # without hosts and login, so they connect to nobody
        offline = {name: options[name] for name in options if name not in online}
        made(make, offline, chosen=settings.client)


def transacting(url: BrokerUrl, settings: KafkaSettings, patience: float) -> dict[str, Any]:
    """Return the settings of a producer with transactions; delivery takes a part of their time."""
    return producing(url, settings, patience) | {
        "transactional.id": settings.transactional_id,
        "transaction.timeout.ms": round(patience * 2 * 1000),
    }
