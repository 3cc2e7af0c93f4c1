"""The settings of the JMS provider, in its constructor or in its URL."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

from history.errors import ConfigurationError
from history.support.urls import guarded
from triggers.providers.brokers.trust import FirstCount

#: How a session settles: each message with ``acknowledge()``, or with a commit.
SessionMode = Literal["client", "transacted"]

#: The prefix of a URL that names a broker; the rest is the broker's own scheme.
PREFIX = "jms+"

#: Settings that the query of a URL may name; everything else there belongs to the broker's URL.
_PLAIN = ("factory", "jndi", "broker", "user", "client_id", "session")

_EXAMPLE = (
    "jms+tcp://127.0.0.1:61616?factory=org.apache.activemq.ActiveMQConnectionFactory"
    "&classpath=/usr/share/activemq/lib/*.jar"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JmsSettings:
    """How to reach a JMS provider, through its own client.

    - ``factory`` is the class of the connection factory; its constructor gets ``broker``, if that is set.
      ``jndi`` is the name to look the factory up by instead, with the JNDI ``environment``. Destinations
      ``jndi:NAME`` use the same environment.
    - ``classpath`` are the jars (or folders) of the provider's client; ``*`` and ``**`` are patterns. None is
      needed if the JVM of this process has them already.
    - ``properties`` are bean properties that are set on the factory: ``prefetchPolicy.all`` calls
      ``getPrefetchPolicy().setAll(...)``. The text becomes a number or a boolean if the setter takes one.
    - ``user`` and ``password`` are for the connections. They are never logged.
    - ``client_id`` is the prefix of the client ids of durable subscribers.
    - ``session`` is ``client`` (CLIENT_ACKNOWLEDGE) or ``transacted``, in which a dead letter moves in one
      step, and acknowledging is a commit.
    - ``first_count`` says how to treat a delivery count of 1: see :mod:`triggers.providers.brokers.trust`.
    - ``jvm`` are options of the Java virtual machine, if this process has none yet.

    Raises:
        ConfigurationError: neither or both of ``factory`` and ``jndi`` are given, or a value is unknown.
    """

    factory: str | None = None
    broker: str | None = None
    jndi: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    classpath: tuple[str, ...] = ()
    properties: Mapping[str, str | int | bool] = field(default_factory=dict[str, str | int | bool])
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    client_id: str = "doubtless"
    session: SessionMode = "client"
    first_count: FirstCount = FirstCount.WEIGHED
    jvm: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.factory is None) is (self.jndi is None):
            said = "neither factory nor jndi is given" if self.factory is None else "both are given"
            raise ConfigurationError("factory", said, f"name a class, as in {_EXAMPLE}, or a name in JNDI")
        if self.session not in get_args(SessionMode):
            raise ConfigurationError("session", f"{self.session!r} is unknown", "use client or transacted")
        for name in ("classpath", "jvm"):
            if isinstance(getattr(self, name), str):
                raise ConfigurationError(name, "must be a tuple of texts, not one text", "give a tuple")

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Read ``jms+tcp://user:password@host:61616?factory=...&classpath=...``, or ``jms:?broker=...``.

        The rest after ``jms+`` is the broker's URL, without the account and without our words in the query.
        Our words are the fields above (``classpath`` and ``jvm`` separated by commas), ``factory.NAME=`` for
        a bean property and ``jndi.NAME=`` for the JNDI environment.

        Raises:
            ConfigurationError: something in it cannot be used.
        """
        with guarded(url, "provider"):
            return cls._of(url)

    @classmethod
    def _of(cls, url: str) -> Self:
        parts = urlsplit(url)
        settings: dict[str, Any] = {"properties": {}, "environment": {}}
        rest: list[tuple[str, str]] = []
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if not _read(settings, name, value):
                rest.append((name, value))
        if parts.scheme.startswith(PREFIX):
            account, _, _ = parts.netloc.rpartition("@")
            user, _, password = account.partition(":")
            settings |= (
                {"user": unquote(user) or None, "password": unquote(password) or None} if account else {}
            )
            settings.setdefault("broker", _broker(parts, rest))
        elif rest or parts.netloc or parts.path:
            strange = rest[0][0] if rest else parts.netloc + parts.path
            named = "an account" if "@" in strange else repr(strange)
            raise ConfigurationError("provider", f"{named} is unknown in a jms: URL", f"use {_EXAMPLE}")
        return cls(**settings)


def _read(settings: dict[str, Any], name: str, value: str) -> bool:
    """Take one word of the query, if it is ours."""
    if name in _PLAIN:
        settings[name] = value
    elif name in {"classpath", "jvm"}:
        settings[name] = (*settings.get(name, ()), *(word for word in value.split(",") if word))
    elif name == "first_count":
        settings[name] = FirstCount.read(value)
    elif name.startswith("factory."):
        settings["properties"][name.removeprefix("factory.")] = value
    elif name.startswith("jndi."):
        settings["environment"][name.removeprefix("jndi.")] = value
    else:
        return False
    return True


def _broker(parts: SplitResult, query: Iterable[tuple[str, str]]) -> str:
    """Return the broker's own URL: without account, and with the rest of the query."""
    options = "&".join(f"{quote(name, safe='.')}={quote(value, safe='/:,.')}" for name, value in query)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme.removeprefix(PREFIX), host, parts.path, options, ""))
