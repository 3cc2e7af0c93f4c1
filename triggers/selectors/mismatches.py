"""A condition that compares a text with a number is never true; the log says why nothing matches.

The headers of Kafka, SQS and NATS are text, whatever their publisher meant: ``quantity > 5`` matches no
message of a publisher without doubtless. Without a warning all of these messages would be skipped silently.
"""

import logging
from collections.abc import Callable
from typing import Final

from triggers.selectors.parsing.kinds import kind_of
from triggers.selectors.parsing.nodes import ComparisonSign, Identifier, Node, Path, ValueKind

_LOGGER: Final = logging.getLogger(__name__)

#: Called with the name of a header or place in the body that is text, and the kind that the condition wants.
Notice = Callable[[str, ValueKind], None]


class Mismatches:
    """Warns of the mismatches of one condition, once for each name. Safe to share between threads."""

    __slots__ = ("_setting", "_text", "_told")

    def __init__(self, setting: str, text: str) -> None:
        self._setting, self._text = setting, text
        self._told: dict[str, object] = {}

    def __call__(self, name: str, wanted: ValueKind) -> None:
        """Warn, unless this name was reported before; the value itself is not logged."""
        mine = object()
        if self._told.setdefault(name, mine) is not mine:
            return
        _LOGGER.warning(
            "%s %r: %s is text in this message, and the condition wants %s there, so it does not match. "
            "Headers of Kafka, SQS and NATS are text. Compare with text, such as %s = '5', or give "
            "filter= a function that converts it. This is logged once for each name.",
            self._setting,
            self._text,
            name,
            wanted.value,
            name,
        )


def name_of(node: Node) -> str | None:
    """Return the written form of a header, a property or a place in the body; None for anything else."""
    match node:
        case Identifier(name):
            return name
        case Path("properties", (str(name), *_)):
            return f"properties['{name}']"
        case Path(root, keys):
            return root + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
        case _:
            return None


def wanted_by(sign: ComparisonSign, other: Node) -> ValueKind | None:
    """Return the kind that a comparison wants for its other side; None if only a message shows it."""
    if sign not in {"=", "<>"}:  # only numbers have an order
        return ValueKind.NUMBER
    kind = kind_of(other)
    return kind if kind in {ValueKind.NUMBER, ValueKind.CONDITION} else None
