"""Selectors and filters: a condition that is read once and evaluated for many messages."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, assert_never

from history.errors import ConfigurationError
from history.message import Message
from triggers.selectors.compiler import Mismatches, Test, compile_condition
from triggers.selectors.operators import Truth
from triggers.selectors.parsing import nodes
from triggers.selectors.parsing.parser import Power, parse
from triggers.selectors.parsing.tokens import is_name
from triggers.selectors.parsing.values import Reading

#: Binds more tightly than any operator.
_WHOLE = Power.SIGN + 1


@dataclass(frozen=True, slots=True)
class Selector:
    """A message selector of the Jakarta Messaging specification, section 3.8: headers and properties.

    Immutable and safe to share between threads. ``str()`` is its text, as a provider takes it; an empty one
    selects everything.
    """

    text: str
    tree: nodes.Node | None = field(compare=False, repr=False)
    _test: Test = field(compare=False, repr=False)

    #: Its name in errors.
    setting: ClassVar[str] = "selector"

    #: Whether it may look into the body.
    paths: ClassVar[bool] = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a selector.

        Raises:
            SelectorError: a ConfigurationError that names the place, and what was expected there.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
            raise ConfigurationError(
                cls.setting, f"must be text, not {text!r:.60}", "write \"region = 'EU'\""
            )
        if not text.strip(" \t\f\r\n"):
            return cls(text, None, _everything)
        tree = parse(text, cls.setting, paths=cls.paths)
        return cls(text, tree, compile_condition(tree, Mismatches(cls.setting, text)))

    def matches(self, message: Message) -> bool:
        """Whether the condition holds; unknown does not match."""
        return self._test(Reading(message)) is True

    def evaluate(self, reading: Reading) -> Truth:
        """Return True, False, or None for unknown; conditions that share a reading share its parsed body."""
        return self._test(reading)

    def canonical(self) -> str:
        """Return the condition in one spelling, with the fewest parentheses."""
        return "" if self.tree is None else write(self.tree)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).parse, (self.text,)


class Filter(Selector):
    """A selector that may also look into the body: ``body.lines[0].sku = 'X'``, ``properties['a-b']``.

    A body of bytes or text is read as JSON once, when a condition needs it; if it is not JSON, every
    place is NULL.
    """

    __slots__ = ()

    setting: ClassVar[str] = "filter"
    paths: ClassVar[bool] = True


def _everything(_: Any) -> Truth:
    return True


def write(node: nodes.Node) -> str:
    """Return a text that is parsed to the same tree."""
    return _write(node)[0]


def _write(node: nodes.Node) -> tuple[str, int]:  # noqa: PLR0911  (one for each kind of node)
    """Return the text, and how tightly it binds."""
    match node:
        case nodes.Constant(value):
            return _literal(value), _WHOLE
        case nodes.Identifier(name):
            return name, _WHOLE
        case nodes.Path(root, keys):
            return root + "".join(map(_key, keys)), _WHOLE
        case nodes.Signed(sign, operand):
            # A bare number would take the sign into itself, and -- opens a comment in SQL.
            return sign + _within(operand, _WHOLE + isinstance(operand, nodes.Constant)), Power.SIGN
        case nodes.ArithmeticChain(first, rest):
            power = Power.SUM if rest[0][0] in {"+", "-"} else Power.PRODUCT
            parts = [f" {sign} {_within(operand, power + 1)}" for sign, operand in rest]
            return _within(first, power + 1) + "".join(parts), power
        case nodes.Not(operand):
            return f"NOT {_within(operand, Power.NOT)}", Power.NOT
        case nodes.And(operands):
            return " AND ".join(_within(operand, Power.NOT) for operand in operands), Power.AND
        case nodes.Or(operands):
            return " OR ".join(_within(operand, Power.AND) for operand in operands), Power.OR
        case _:
            return _write_test(node), Power.COMPARISON


def _write_test(node: nodes.ComparedValues | nodes.Between | nodes.In | nodes.Like | nodes.IsNull) -> str:
    match node:
        case nodes.ComparedValues(sign, left, right):
            return f"{_within(left, Power.SUM)} {sign} {_within(right, Power.SUM)}"
        case nodes.Between(operand, low, high, negated):
            bounds = f"{_within(low, Power.SUM)} AND {_within(high, Power.SUM)}"
            return f"{_within(operand, Power.SUM)}{_not(negated)} BETWEEN {bounds}"
        case nodes.In(operand, values, negated):
            return f"{write(operand)}{_not(negated)} IN ({', '.join(map(_literal, values))})"
        case nodes.Like(operand, pattern, escape, negated):
            tail = "" if escape is None else f" ESCAPE {_literal(escape)}"
            return f"{write(operand)}{_not(negated)} LIKE {_literal(pattern)}{tail}"
        case nodes.IsNull(operand, negated):
            return f"{write(operand)} IS{_not(negated)} NULL"
        case _:
            assert_never(node)


def _within(node: nodes.Node, power: int) -> str:
    text, holds = _write(node)
    return text if holds >= power else f"({text})"


def _not(negated: bool) -> str:  # noqa: FBT001  (it is the node's)
    return " NOT" * negated


def _literal(value: nodes.ConstantValue) -> str:
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
