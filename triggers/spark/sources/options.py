"""The options that a source was given by ``option(name, value)``: read, checked, and none unknown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from history.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one source; names compare without case, as Spark's do."""

    source: str
    given: Mapping[str, str]
    _asked: dict[str, str] = field(default_factory=dict[str, str])

    def needed(self, name: str, example: str) -> str:
        """Return an option that must be present.

        Raises:
            ConfigurationError: it is missing.
        """
        value = self.text(name)
        if not value:
            raise ConfigurationError(
                self.source, f"has no {name}", f"add .option({name!r}, {example!r}) before .load()"
            )
        return value

    def text(self, name: str) -> str | None:
        """Return an option as it is; None if it is left out."""
        self._asked[name.lower()] = name
        return {key.lower(): value for key, value in self.given.items()}.get(name.lower())

    def choice(self, name: str, *choices: str) -> str:
        """Return one of several words; the first is the default."""
        value = self.text(name)
        if value is None:
            return choices[0]
        if value.lower() not in choices:
            raise self._wrong(name, value, f"give {' or '.join(choices)}")
        return value.lower()

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        words = ("true", "false") if default else ("false", "true")
        return self.choice(name, *words) == "true"

    def count(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number of 1 or more."""
        value = self.text(name)
        if value is None:
            return default
        if not value.isdecimal() or int(value) < 1:
            raise self._wrong(name, value, "give a whole number of 1 or more")
        return int(value)

    def seconds(self, name: str, default: float) -> float:
        """Return a duration in seconds."""
        value = self.text(name)
        try:
            seconds = default if value is None else float(value)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            raise self._wrong(name, str(value), "give seconds, such as 60")
        return seconds

    def all_known(self) -> Self:
        """Return these options after each known option was read.

        Raises:
            ConfigurationError: an option is unknown.
        """
        unknown = sorted(name for name in self.given if name.lower() not in self._asked)
        if unknown:
            raise ConfigurationError(
                self.source,
                f"has no option {unknown[0]}",
                f"its options are {', '.join(sorted(self._asked.values()))}",
            )
        return self

    def _wrong(self, name: str, value: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(name, f"{value!r} cannot be used", remedy)
