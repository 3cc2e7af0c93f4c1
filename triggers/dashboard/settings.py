"""The settings of a trigger in words: no value of Python's, and no password of a URL."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from triggers.configuration.hiding import shown
from triggers.consumer.options import AnyTrigger


def settings_of(known: AnyTrigger) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting of a trigger, and its value in words."""
    for field in fields(known.settings):
        value = getattr(known.settings, field.name)
        if field.name == "policy":
            yield from (
                (inner.name, in_words(inner.name, getattr(value, inner.name))) for inner in fields(value)
            )
        elif field.name != "name":
            yield field.name, in_words(field.name, value)


def in_words(name: str, value: Any) -> str:  # noqa: PLR0911  (one for each type)
    """Return the value of a setting as people read it."""
    match value:
        case None | "" | ():
            return "not set"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"{value:,}"
        case str() | timedelta() | Path():
            return str(shown(name, value))
        case tuple() | list() | frozenset():
            return ", ".join(in_words(name, one) for one in value)  # pyright: ignore[reportUnknownVariableType]
        case type():
            return value.__name__
        case _ if is_dataclass(value):
            inner = ((one.name, getattr(value, one.name)) for one in fields(value))
            return ", ".join(f"{key.replace('_', ' ')} {in_words(key, one)}" for key, one in inner)
        case _:
            return str(getattr(value, "__qualname__", type(value).__name__))
