"""The settings of SQL-JMS, in its constructor or in its URL."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from history.errors import ConfigurationError
from triggers.service.checking import check_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlJmsSettings:
    """The settings of the consumers of one database, which should all have the same.

    - ``lease`` is how long a consumer may be silent before others get what it holds.
    - ``poll_interval`` is how often a consumer looks for messages if nobody wakes it.

    Raises:
        ConfigurationError: a duration is not positive.
    """

    lease: timedelta = timedelta(seconds=30)
    poll_interval: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        for name in self.names():
            check_duration(name, getattr(self, name))

    @classmethod
    def names(cls) -> Sequence[str]:
        """Return the settings that a URL may have."""
        return [field.name for field in fields(cls)]

    @classmethod
    def from_url(cls, url: str) -> tuple[Self, str]:
        """Read ``?lease=10&poll_interval=0.5``, in seconds; return the settings and the URL without them.

        Raises:
            ConfigurationError: a value is not a number of seconds.
        """
        query = parse_qsl(urlsplit(url).query, keep_blank_values=True)
        names = cls.names()
        settings = {name: _seconds(name, value) for name, value in query if name in names}
        if not settings:
            return cls(), url
        rest = urlencode([(name, value) for name, value in query if name not in names])
        # Not the result of urlunsplit: it drops the empty host of sqlite:///file.db.
        bare = url.partition("?")[0]
        return cls(**settings), f"{bare}?{rest}" if rest else bare


def _seconds(name: str, value: str) -> timedelta:
    try:
        return timedelta(seconds=float(value))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            name, f"{value!r} in the URL cannot be used", "give seconds, such as 10 or 0.5"
        ) from error
