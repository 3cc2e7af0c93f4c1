"""From a tree back to text, with the fewest parentheses that keep its shape."""

from typing import assert_never

from triggers.selectors.parsing.parser import Power
from triggers.selectors.parsing.tokens import is_name
from triggers.selectors.parsing.tree import (
    And,
    Between,
    Chain,
    Comparison,
    Constant,
    ConstantValue,
    Identifier,
    In,
    IsNull,
    Like,
    Node,
    Not,
    Or,
    Path,
    Signed,
)

#: Binds more tightly than any operator.
_WHOLE = Power.SIGN + 1


def write(node: Node) -> str:
    """Return a text that is parsed to the same tree."""
    return _write(node)[0]


def _write(node: Node) -> tuple[str, int]:  # noqa: PLR0911  (one for each kind of node)
    """Return the text, and how tightly it binds."""
    match node:
        case Constant(value):
            return _literal(value), _WHOLE
        case Identifier(name):
            return name, _WHOLE
        case Path(root, keys):
            return root + "".join(map(_key, keys)), _WHOLE
        case Signed(sign, operand):
            # A bare number would take the sign into itself, and -- opens a comment in SQL.
            return sign + _within(operand, _WHOLE + isinstance(operand, Constant)), Power.SIGN
        case Chain(first, rest):
            power = Power.SUM if rest[0][0] in {"+", "-"} else Power.PRODUCT
            parts = [f" {sign} {_within(operand, power + 1)}" for sign, operand in rest]
            return _within(first, power + 1) + "".join(parts), power
        case Not(operand):
            return f"NOT {_within(operand, Power.NOT)}", Power.NOT
        case And(operands):
            return " AND ".join(_within(operand, Power.NOT) for operand in operands), Power.AND
        case Or(operands):
            return " OR ".join(_within(operand, Power.AND) for operand in operands), Power.OR
        case _:
            return _write_test(node), Power.COMPARISON


def _write_test(node: Comparison | Between | In | Like | IsNull) -> str:
    match node:
        case Comparison(sign, left, right):
            return f"{_within(left, Power.SUM)} {sign} {_within(right, Power.SUM)}"
        case Between(operand, low, high, negated):
            bounds = f"{_within(low, Power.SUM)} AND {_within(high, Power.SUM)}"
            return f"{_within(operand, Power.SUM)}{_not(negated)} BETWEEN {bounds}"
        case In(operand, values, negated):
            return f"{write(operand)}{_not(negated)} IN ({', '.join(map(_literal, values))})"
        case Like(operand, pattern, escape, negated):
            tail = "" if escape is None else f" ESCAPE {_literal(escape)}"
            return f"{write(operand)}{_not(negated)} LIKE {_literal(pattern)}{tail}"
        case IsNull(operand, negated):
            return f"{write(operand)} IS{_not(negated)} NULL"
        case _:
            assert_never(node)


def _within(node: Node, power: int) -> str:
    text, holds = _write(node)
    return text if holds >= power else f"({text})"


def _not(negated: bool) -> str:  # noqa: FBT001  (it is the node's)
    return " NOT" * negated


def _literal(value: ConstantValue) -> str:
    match value:
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return repr(value)


def _key(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if is_name(key) else f"[{_literal(key)}]"
