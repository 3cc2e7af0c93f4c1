"""The Redis keys of one consumer: the stream, and further keys in the same Cluster slot."""

from dataclasses import dataclass
from datetime import timedelta

from history.errors import ConfigurationError


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
