"""From a tree to functions: compiled once, called for every message.

In conditions and in values, None is unknown: :mod:`triggers.selectors.operators` says how it propagates. AND,
OR and NOT follow the specification's tables. NOT LIKE and NOT IN are the opposite of LIKE and IN, which are
false for values that are not text. An object or array exists (IS NOT NULL), and equals no other value.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, assert_never

from triggers.selectors.operators import ARITHMETIC, COMPARISONS, Compare, Reckon, Truth, negative, positive
from triggers.selectors.parsing import nodes
from triggers.selectors.parsing.like import compile_like
from triggers.selectors.parsing.nodes import ComparisonSign, Identifier, Node, Path, ValueKind
from triggers.selectors.parsing.values import FILTER_HEADERS, Reading, kind_of

#: Reads a value of a message; None is NULL.
Look = Callable[[Reading], object]

#: Returns whether a condition holds.
Test = Callable[[Reading], Truth]

_LOGGER: Final = logging.getLogger(__name__)

#: Called with the name of a header or place in the body that is text, and the kind that the condition wants.
Notice = Callable[[str, ValueKind], None]


class Mismatches:
    """Warns of the mismatches of one condition, once for each name. Safe to share between threads.

    A condition that compares a text with a number is never true. The headers of Kafka, SQS and NATS are text,
    whatever their publisher meant: ``quantity > 5`` matches no message of a publisher without doubtless.
    Without a warning all of these messages would be skipped silently.
    """

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
    other_kind = kind_of(other)
    return other_kind if other_kind in {ValueKind.NUMBER, ValueKind.CONDITION} else None


def compile_condition(node: nodes.Node, notice: Notice) -> Test:  # noqa: PLR0911  (one for each kind of node)
    """Return the function that says whether a condition holds.

    It reports to ``notice`` each text that is used as a number or a truth.
    """
    match node:
        case nodes.ComparedValues():
            return _comparison(node, notice)
        case nodes.Between():
            return _between(node, notice)
        case nodes.In(operand, values, negated):
            return _text_test(compile_value(operand, notice), frozenset(values).__contains__, negated=negated)
        case nodes.Like(operand, pattern, escape, negated):
            return _text_test(compile_value(operand, notice), compile_like(pattern, escape), negated=negated)
        case nodes.IsNull(operand, negated):
            return _is_null(compile_value(operand, notice), negated=negated)
        case nodes.Not(operand):
            return _not(compile_condition(operand, notice))
        case nodes.And(operands):
            return _all([compile_condition(operand, notice) for operand in operands])
        case nodes.Or(operands):
            return _any([compile_condition(operand, notice) for operand in operands])
        case nodes.Constant() | nodes.Identifier() | nodes.Path() | nodes.Signed() | nodes.ArithmeticChain():
            return _truth(_noticing(node, nodes.ValueKind.CONDITION, notice))
        case _:
            assert_never(node)


def compile_value(node: nodes.Node, notice: Notice) -> Look:  # noqa: PLR0911  (as above)
    """Return the function that reads a value."""
    match node:
        case nodes.Constant(value):
            return lambda _: value
        case nodes.Identifier(name):
            return _identifier(name)
        case nodes.Path("properties", (str(name), *_)):
            return lambda reading: reading.message.properties.get(name)
        case nodes.Path(_, keys):
            return lambda reading: reading.at(keys)
        case nodes.Signed(sign, operand):
            return _signed(sign, _noticing(operand, nodes.ValueKind.NUMBER, notice))
        case nodes.ArithmeticChain(first, rest):
            number = partial(_noticing, wanted=nodes.ValueKind.NUMBER, notice=notice)
            return _chain(number(first), [(ARITHMETIC[sign], number(operand)) for sign, operand in rest])
        case _:
            return compile_condition(node, notice)


def _identifier(name: str) -> Look:
    if name in FILTER_HEADERS:
        header = FILTER_HEADERS[name][1]
        return lambda reading: header(reading.message)
    return lambda reading: reading.message.properties.get(name)


def _truth(look: Look) -> Test:
    def test(reading: Reading) -> Truth:
        value = look(reading)
        return value if value is None or value is True else False

    return test


def _not(inner: Test) -> Test:
    def test(reading: Reading) -> Truth:
        result = inner(reading)
        return None if result is None else not result

    return test


def _all(tests: Sequence[Test]) -> Test:
    def test(reading: Reading) -> Truth:
        truth: Truth = True
        for condition in tests:
            result = condition(reading)
            if result is False:
                return False
            if result is None:
                truth = None
        return truth

    return test


def _any(tests: Sequence[Test]) -> Test:
    def test(reading: Reading) -> Truth:
        truth: Truth = False
        for condition in tests:
            result = condition(reading)
            if result:
                return True
            if result is None:
                truth = None
        return truth

    return test


def _is_null(look: Look, *, negated: bool) -> Test:
    if negated:
        return lambda reading: look(reading) is not None
    return lambda reading: look(reading) is None


def _text_test(look: Look, holds: Callable[[str], bool], *, negated: bool) -> Test:
    def test(reading: Reading) -> Truth:
        value = look(reading)
        # For other values than text it is unknown, negated or not: a number is not "not one of these texts".
        return holds(value) is not negated if isinstance(value, str) else None

    return test


def _comparison(node: nodes.ComparedValues, notice: Notice) -> Test:
    compare, look = COMPARISONS[node.sign], _noticing(node.left, wanted_by(node.sign, node.right), notice)
    if isinstance(node.right, nodes.Constant):
        return _against(look, compare, node.right.value)
    other = _noticing(node.right, wanted_by(node.sign, node.left), notice)
    return lambda reading: compare(look(reading), other(reading))


def _noticing(node: nodes.Node, wanted: nodes.ValueKind | None, notice: Notice) -> Look:
    """Return the function that reads a value, and gives notice if it is text instead of the wanted kind."""
    look, name = compile_value(node, notice), name_of(node)
    if name is None or wanted is None:
        return look

    def read(reading: Reading) -> object:
        value = look(reading)
        if isinstance(value, str):
            notice(name, wanted)
        return value

    return read


def _against(look: Look, compare: Compare, constant: object) -> Test:
    return lambda reading: compare(look(reading), constant)


def _between(node: nodes.Between, notice: Notice) -> Test:
    """Compare as ``>= AND <=`` does; negated, as ``< OR >``."""
    look, low, high = (
        _noticing(operand, nodes.ValueKind.NUMBER, notice) for operand in (node.operand, node.low, node.high)
    )
    below, above = (
        (COMPARISONS["<"], COMPARISONS[">"]) if node.negated else (COMPARISONS[">="], COMPARISONS["<="])
    )
    negated = node.negated

    def test(reading: Reading) -> Truth:
        value = look(reading)
        truths = below(value, low(reading)), above(value, high(reading))
        # One result can decide: a false one in the AND, a true one in the OR.
        if negated in truths:
            return negated
        return None if None in truths else not negated

    return test


def _chain(first: Look, rest: Sequence[tuple[Reckon, Look]]) -> Look:
    def total(reading: Reading) -> object:
        value = first(reading)
        for reckon, look in rest:
            value = reckon(value, look(reading))
        return value

    return total


def _signed(sign: str, look: Look) -> Look:
    apply = negative if sign == "-" else positive
    return lambda reading: apply(look(reading))
