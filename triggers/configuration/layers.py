"""The configured values and their sources. The first layer that has a key wins."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

#: The default file: read from the current folder, if it exists and no other file is named.
FILE = Path("doubtless.toml")

#: The prefix of our environment variables; two underscores lead into a table.
PREFIX, INTO = "DOUBTLESS_", "__"


class FoundValue(NamedTuple):
    """A value and its source: a variable of the environment, or a file with the key.

    ``is_default`` values are those of all triggers.
    """

    value: Any
    origin: str
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one source; ``file`` is None for the environment.

    ``triggers`` has a table for each trigger: by its name in a file, by :func:`name_in_variables` of it in
    the environment, where a name may contain neither dots nor dashes. ``defaults`` is for all triggers.
    """

    file: Path | None
    values: Mapping[str, Any]
    triggers: Mapping[str, Mapping[str, Any]]
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def origin(self, *path: str) -> str:
        """Return the name of a key in this source."""
        if self.file is None:
            return variable_of(*path)
        return f"{self.file}, {'.'.join(path)}"

    def called(self, trigger: str) -> str:
        """Return the name of a trigger in this source."""
        return name_in_variables(trigger) if self.file is None else trigger


@dataclass(frozen=True, slots=True)
class Configuration:
    """The values of the environment and of the file, in this order; empty without any."""

    layers: Sequence[Layer] = ()

    @property
    def file(self) -> Path | None:
        """The file that was read."""
        return next((layer.file for layer in self.layers if layer.file is not None), None)

    def find(self, key: str) -> FoundValue | None:
        """Return the value of a key such as ``history``; None if no source has it."""
        for layer in self.layers:
            if key in layer.values:
                return FoundValue(layer.values[key], layer.origin(key))
        return None

    def of_trigger(self, name: str) -> dict[str, FoundValue]:
        """Return the values for a trigger, by keys; those of ``retry`` are ``retry.interval`` and so on."""
        values: dict[str, FoundValue] = {}
        for layer in self.layers:
            called = layer.called(name)
            for key, value in layer.triggers.get(called, {}).items():
                origin = layer.origin("triggers", called, *key.split("."))
                values.setdefault(key, FoundValue(value, origin))
        return values

    def defaults(self) -> dict[str, FoundValue]:
        """Return the values for triggers that do not set them, with keys as of a trigger."""
        values: dict[str, FoundValue] = {}
        for layer in self.layers:
            for key, value in layer.defaults.items():
                values.setdefault(
                    key, FoundValue(value, layer.origin("defaults", *key.split(".")), is_default=True)
                )
        return values

    def unclaimed(self, names: Sequence[str]) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Yield the tables that belong to none of these triggers.

        Each with its name, its source, and the names of the triggers in that source.
        """
        for layer in self.layers:
            used_names = [layer.called(name) for name in names]
            for called in layer.triggers:
                if called not in used_names:
                    yield called, layer.origin("triggers", called), used_names


def name_in_variables(trigger: str) -> str:
    """Return a trigger's name in variables: ``book_order`` for "book-order"."""
    return re.sub(r"\W", "_", trigger, flags=re.ASCII).lower()


def variable_of(*path: str) -> str:
    """Return the variable for a key: ``DOUBTLESS_TRIGGERS__BOOK_ORDER__LEASE``."""
    return PREFIX + INTO.join(path).upper()
