"""What is configured, and who said it. The first layer that has a key wins."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

#: The file that is read from the current folder, where it is there and no other is named.
FILE = Path("doubtless.toml")

#: What the names of our environment variables begin with; two underscores lead into a table.
PREFIX, INTO = "DOUBTLESS_", "__"


class Found(NamedTuple):
    """A value, and who said it: a variable of the environment, or a file with the key.

    ``is_default`` values are those of all triggers.
    """

    value: Any
    origin: str
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says; ``file`` is None for the environment.

    ``triggers`` has a table for each trigger: by its name in a file, by :func:`name_in_variables` of it in
    the environment, where a name may hold neither dots nor dashes. ``defaults`` is for all triggers.
    """

    file: Path | None
    values: Mapping[str, Any]
    triggers: Mapping[str, Mapping[str, Any]]
    defaults: Mapping[str, Any]

    def origin(self, *path: str) -> str:
        """Return how a key is called there."""
        if self.file is None:
            return variable_of(*path)
        return f"{self.file}, {'.'.join(path)}"

    def called(self, trigger: str) -> str:
        """Return how a trigger is called there."""
        return name_in_variables(trigger) if self.file is None else trigger


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the environment and the file say, in this order; nothing, where neither says anything."""

    layers: Sequence[Layer] = ()

    @property
    def file(self) -> Path | None:
        """The file that was read."""
        return next((layer.file for layer in self.layers if layer.file is not None), None)

    def find(self, key: str) -> Found | None:
        """Return what is said of a key such as ``history``; None where nobody says anything."""
        for layer in self.layers:
            if key in layer.values:
                return Found(layer.values[key], layer.origin(key))
        return None

    def of_trigger(self, name: str) -> dict[str, Found]:
        """Return what is said of a trigger, by keys; those of ``retry`` are ``retry.interval`` and so on."""
        found: dict[str, Found] = {}
        for layer in self.layers:
            called = layer.called(name)
            for key, value in layer.triggers.get(called, {}).items():
                origin = layer.origin("triggers", called, *key.split("."))
                found.setdefault(key, Found(value, origin))
        return found

    def defaults(self) -> dict[str, Found]:
        """Return what is said of triggers that do not say it themselves, with keys as of a trigger."""
        found: dict[str, Found] = {}
        for layer in self.layers:
            for key, value in layer.defaults.items():
                found.setdefault(
                    key, Found(value, layer.origin("defaults", *key.split(".")), is_default=True)
                )
        return found

    def unclaimed(self, names: Sequence[str]) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Yield the tables that are of none of these triggers.

        Each with how it is called, who said it, and how the triggers would be called there.
        """
        for layer in self.layers:
            known = [layer.called(name) for name in names]
            for called in layer.triggers:
                if called not in known:
                    yield called, layer.origin("triggers", called), known


def name_in_variables(trigger: str) -> str:
    """Return a trigger's name as variables have it: ``book_order`` of "book-order"."""
    return re.sub(r"\W", "_", trigger, flags=re.ASCII).lower()


def variable_of(*path: str) -> str:
    """Return the variable that stands for a key: ``DOUBTLESS_TRIGGERS__BOOK_ORDER__LEASE``."""
    return PREFIX + INTO.join(path).upper()
