"""The kind of an expression, as far as its text shows it: an impossible condition is refused immediately."""

from typing import assert_never

from triggers.selectors.parsing.tree import (
    And,
    Between,
    Chain,
    Comparison,
    Constant,
    Identifier,
    In,
    IsNull,
    Like,
    Node,
    Not,
    Or,
    Path,
    Signed,
    ValueKind,
)
from triggers.selectors.parsing.values import FILTER_HEADERS

#: The kinds for calculations and order.
NUMBERS = frozenset({ValueKind.NUMBER, ValueKind.ANY})

#: The kinds that may be true.
CONDITIONS = frozenset({ValueKind.CONDITION, ValueKind.ANY})


def kind_of(node: Node) -> ValueKind:
    """Return the kind of an expression; for a property or a place in the body, only a message shows it."""
    match node:
        case Constant(bool()) | Comparison() | Between() | In() | Like() | IsNull() | Not() | And() | Or():
            return ValueKind.CONDITION
        case Constant(str()):
            return ValueKind.TEXT
        case Constant() | Signed() | Chain():
            return ValueKind.NUMBER
        case Identifier(name):
            header = FILTER_HEADERS.get(name)
            return ValueKind.ANY if header is None else header[0]
        case Path():
            return ValueKind.ANY
        case _:
            assert_never(node)
