"""The settings of the Redis Streams provider, in its constructor or in its URL."""

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlunsplit

from history.errors import ConfigurationError
from history.redis.connection.durability import Durability
from history.support.urls import split_url
from triggers.service.checking import check_duration, check_whole

#: The most entries that Redis can count: eight bytes with a sign.
MOST_ENTRIES = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """The settings of a subscription's consumers, which should all have the same, and of its senders.

    - ``claim_idle`` is how long a consumer may be silent before its messages are taken over.
    - ``reclaim_interval`` is how often each consumer looks for such messages, and for recovered ones.
    - ``trim`` drops, about once a minute, entries that every existing subscription has acknowledged, once
      they are so old: a week. A subscription made later never sees them. True drops them at any age, False
      never.
    - ``durability``, such as ``replicas:1``, lets sending succeed only once so many replicas have the
      messages. Not on a Cluster.
    - ``maxlen`` keeps about that many entries when something is sent, and drops older ones, acknowledged or
      not.

    ``trim`` never drops what a subscription has not received or not acknowledged.

    Raises:
        ConfigurationError: a duration or ``maxlen`` is not positive, or another setting has an invalid form.
    """

    claim_idle: timedelta = timedelta(seconds=30)
    reclaim_interval: timedelta = timedelta(seconds=1)
    trim: bool | timedelta = timedelta(days=7)
    maxlen: int | None = None
    durability: str | None = None

    def __post_init__(self) -> None:
        check_duration("claim_idle", self.claim_idle)
        check_duration("reclaim_interval", self.reclaim_interval)
        if not _is_age(self.trim) or self.trim_age < timedelta(0):
            raise ConfigurationError(
                "trim",
                f"must be an age, or True or False, not {self.trim!r}",
                "give a timedelta, True (acknowledged at any age) or False (never)",
            )
        Durability.of(self.durability)
        if self.maxlen is not None:
            check_whole("maxlen", self.maxlen, 1, MOST_ENTRIES)

    @property
    def trims(self) -> bool:
        """Whether acknowledged entries are trimmed."""
        return self.trim is not False

    @property
    def trim_age(self) -> timedelta:
        """The age at which acknowledged entries are trimmed."""
        return self.trim if isinstance(self.trim, timedelta) else timedelta(0)

    @classmethod
    def from_url(cls, url: str) -> tuple[Self, str]:
        """Read ``?claim_idle=10&reclaim_interval=1&trim=acknowledged&maxlen=100000``; times are seconds.

        Returns the settings and the URL without them: the rest of the query is redis-py's.

        Raises:
            ConfigurationError: a value is not of that form.
        """
        parts = split_url(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        names = {field.name for field in fields(cls)}
        settings = {name: _read(name, value) for name, value in query if name in names}
        rest = urlencode([(name, value) for name, value in query if name not in names])
        return cls(**settings), urlunsplit(parts._replace(query=rest))


#: The settings that a URL may name.
NAMES = tuple(field.name for field in fields(StreamSettings))


def _is_age(value: object) -> bool:
    return isinstance(value, bool | timedelta)


def _read(name: str, value: str) -> Any:
    try:
        match name:
            case "trim":
                policies = {"acknowledged": True, "never": False}
                return policies[value] if value in policies else timedelta(seconds=float(value))
            case "maxlen":
                return int(value)
            case "durability":
                return value
            case _:
                return timedelta(seconds=float(value))
    except (KeyError, ValueError, OverflowError) as error:
        remedy = {"trim": "give trim=acknowledged, trim=never or seconds", "maxlen": "give a whole number"}
        raise ConfigurationError(
            name, f"{value!r} in the URL cannot be used", remedy.get(name, "give seconds, such as 10 or 0.5")
        ) from error


def beside(stream: str, name: str) -> str:
    """Return the key ``name`` of ``stream``, in the stream's Cluster slot.

    ``{orders}:name`` for the stream ``orders``, ``{shop}:orders:name`` for a stream ``{shop}:orders``, which
    has a hash tag already. Only a stream name with a ``}`` and no hash tag has no such key: its key works on
    any
    Redis except a Cluster.
    """
    _, opening, rest = stream.partition("{")
    tag, closing, _ = rest.partition("}")
    tagged = bool(opening and closing and tag)
    return f"{stream}:{name}" if tagged else f"{{{stream}}}:{name}"


def dead_letters_of(stream: str) -> str:
    """Return the stream that takes the dead letters of ``stream``: ``{orders}:dlq`` for ``orders``."""
    return beside(stream, "dlq")


def later_of(stream: str) -> str:
    """Return the sorted set of messages for later delivery: ``{orders}:doubtless:later`` for ``orders``."""
    return beside(stream, "doubtless:later")


@dataclass(frozen=True, slots=True)
class StreamKeys:
    """The names of one consumer of one subscription."""

    stream: str
    group: str
    consumer: str

    @property
    def scripted(self) -> tuple[str, str, str, str, str]:
        """The keys that every script gets, in the order of ``lua/shared/common.lua``."""
        # An unescaped colon in the group would let two subscriptions use the same key.
        group = self.group.replace("%", "%25").replace(":", "%3A")
        return (
            self.stream,
            beside(self.stream, f"doubtless:consumer:{group}:{self.consumer}"),
            beside(self.stream, f"doubtless:delayed:{group}"),
            dead_letters_of(self.stream),
            later_of(self.stream),
        )


def name_in_use(keys: StreamKeys, claim_idle: timedelta) -> ConfigurationError:
    """Return the error that another running consumer has the name."""
    return ConfigurationError(
        "name",
        f"{keys.consumer!r} is the name of another living consumer of {keys.group!r} on {keys.stream!r}",
        f"give each consumer a name of its own; a dead one's is free after {claim_idle.total_seconds():g} s",
    )
