"""The kind of an expression, as far as its text shows it: an impossible condition is refused immediately."""

from typing import assert_never

from triggers.selectors.parsing import nodes
from triggers.selectors.parsing.values import FILTER_HEADERS

#: The kinds for calculations and order.
NUMBERS = frozenset({nodes.ValueKind.NUMBER, nodes.ValueKind.ANY})

#: The kinds that may be true.
CONDITIONS = frozenset({nodes.ValueKind.CONDITION, nodes.ValueKind.ANY})


def kind_of(node: nodes.Node) -> nodes.ValueKind:
    """Return the kind of an expression; for a property or a place in the body, only a message shows it."""
    match node:
        case (
            nodes.Constant(bool())
            | nodes.Comparison()
            | nodes.Between()
            | nodes.In()
            | nodes.Like()
            | nodes.IsNull()
            | nodes.Not()
            | nodes.And()
            | nodes.Or()
        ):
            return nodes.ValueKind.CONDITION
        case nodes.Constant(str()):
            return nodes.ValueKind.TEXT
        case nodes.Constant() | nodes.Signed() | nodes.Chain():
            return nodes.ValueKind.NUMBER
        case nodes.Identifier(name):
            header = FILTER_HEADERS.get(name)
            return nodes.ValueKind.ANY if header is None else header[0]
        case nodes.Path():
            return nodes.ValueKind.ANY
        case _:
            assert_never(node)
