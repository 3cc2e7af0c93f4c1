"""Which parked messages somebody looks at: the filters that an address has, so that it can be a bookmark."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from pydantic import TypeAdapter, ValidationError

from history.errors import ConfigurationError
from triggers.configuration.durations import Duration
from triggers.dashboard.groups import Group, Line

#: The names of the filters in an address or a form, besides the trigger and the host.
NAMES = ("text", "error", "older", "newer")

_DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFilter:
    """Filters of parked messages.

    ``text`` occurs in the uuid or the id; in the reason or the error only if ``sees_texts``, because a search
    would tell what is in them. ``error`` occurs in the class of the error or in its place. A message was
    parked longer ago than ``older``, or within ``newer``. ``given`` are the filters as an address has them.
    """

    text: str | None = None
    error: str | None = None
    older: timedelta | None = None
    newer: timedelta | None = None
    sees_texts: bool = False
    given: Mapping[str, str] = field(default_factory=dict[str, str])
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def read(cls, ask: Callable[[str], str | None], *, sees_texts: bool) -> Self:
        """Return the filters of an address or a form.

        Raises:
            ConfigurationError: an age is not a time.
        """
        texts = {name: value for name in NAMES if (value := (ask(name) or "").strip())}
        return cls(
            text=texts["text"].casefold() if "text" in texts else None,
            error=texts["error"].casefold() if "error" in texts else None,
            older=_age("older", texts.get("older")),
            newer=_age("newer", texts.get("newer")),
            sees_texts=sees_texts,
            given=texts,
        )

    def narrowed(self, groups: Iterable[Group]) -> list[Group]:
        """Return the groups with only the messages that match, the largest first."""
        if not self.given:
            return list(groups)
        matching = [smaller for group in groups if (smaller := self.narrow(group)) is not None]
        return sorted(matching, key=lambda group: (-group.count, group.key))

    def narrow(self, group: Group) -> Group | None:
        """Return a group with only the messages that match; None if none does.

        Raises:
            ConfigurationError: ``error`` is given, and the group is that of a host, which has many errors.
        """
        if not self.given:
            return group
        if self.error is not None and group.host is not None:
            raise ConfigurationError(
                "error", "groups by host have many errors", "group by cause, or leave it out"
            )
        error = f"{group.error_class or ''}\n{group.error_place or ''}".casefold()
        if self.error is not None and self.error not in error:
            return None
        lines = group.lines.matching(self._lets_through)
        return replace(group, lines=lines, count=len(lines), oldest=lines[0].parked_at) if lines else None

    def _lets_through(self, line: Line) -> bool:
        age = self.now - line.parked_at
        if (self.older is not None and age <= self.older) or (self.newer is not None and age > self.newer):
            return False
        if self.text is None:
            return True
        texts = (line.uuid, line.id, *((line.reason, line.error) if self.sees_texts else ()))
        return any(self.text in text.casefold() for text in texts if text is not None)


def _age(name: str, text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        return _DURATION.validate_python(text)
    except ValidationError as error:
        raise ConfigurationError(name, f"{text!r:.30} is not a time", "write 90s, 15m, 2h or 7d") from error
