"""What can be set on the Redis Streams provider, in its constructor or in its URL."""

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from history.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """The settings of a subscription's consumers, who should agree on them, and of its senders.

    - ``claim_idle`` is how long a consumer may be silent before its messages are taken over.
    - ``reclaim_interval`` is how often each consumer looks for such messages, and for recovered ones.
    - ``trim`` drops, about once a minute, entries that every existing subscription has acknowledged; a
      subscription made later never sees them.
    - ``maxlen`` keeps about that many entries when something is sent, and drops older ones, acknowledged or
      not.

    A stream keeps everything unless ``trim`` or ``maxlen`` is set.

    Raises:
        ConfigurationError: a duration or ``maxlen`` is not positive.
    """

    claim_idle: timedelta = timedelta(seconds=30)
    reclaim_interval: timedelta = timedelta(seconds=1)
    trim: bool = False
    maxlen: int | None = None

    def __post_init__(self) -> None:
        for name in ("claim_idle", "reclaim_interval"):
            if getattr(self, name) < timedelta(milliseconds=1):
                raise ConfigurationError(name, "is shorter than a millisecond", "give a positive duration")
        if self.maxlen is not None and self.maxlen < 1:
            raise ConfigurationError(
                "maxlen", f"must be 1 or more, not {self.maxlen}", "give 1 or more, or leave it out"
            )

    @classmethod
    def from_url(cls, url: str) -> tuple[Self, str]:
        """Read ``?claim_idle=10&reclaim_interval=1&trim=acknowledged&maxlen=100000``; times are seconds.

        Returns the settings and the URL without them: the rest of the query is redis-py's.

        Raises:
            ConfigurationError: a value is not of that form.
        """
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        names = {field.name for field in fields(cls)}
        settings = {name: _read(name, value) for name, value in query if name in names}
        rest = urlencode([(name, value) for name, value in query if name not in names])
        return cls(**settings), urlunsplit(parts._replace(query=rest))


def _read(name: str, value: str) -> Any:
    try:
        match name:
            case "trim":
                return {"acknowledged": True}[value]
            case "maxlen":
                return int(value)
            case _:
                return timedelta(seconds=float(value))
    except (KeyError, ValueError, OverflowError) as error:
        remedy = {"trim": "give trim=acknowledged, or leave it out", "maxlen": "give a whole number"}
        raise ConfigurationError(
            name, f"{value!r} in the URL cannot be used", remedy.get(name, "give seconds, such as 10 or 0.5")
        ) from error
