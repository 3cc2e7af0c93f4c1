"""Comparing and calculating with values, as Java does it.

NULL is None, which means unknown: comparing or calculating with NULL is also unknown. Only values of one kind
are comparable, except an integer with a float, which becomes a float. Any other comparison is false, even
``<>``. The specification leaves some cases open: here, calculating with other values than numbers, and
dividing an integer by 0, give NULL. Integers are exact instead of wrapping around at 64 bits.
"""

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from triggers.selectors.parsing.nodes import ArithmeticSign, ComparisonSign

#: True, False or None, which means unknown.
Truth = bool | None

Compare = Callable[[object, object], Truth]
Reckon = Callable[[object, object], object]

_NUMBERS: frozenset[type] = frozenset({int, float})
_SCALARS: frozenset[type] = _NUMBERS | {bool, str}


def _comparing(compare: Callable[[Any, Any], bool], kinds: frozenset[type]) -> Compare:
    def test(left: object, right: object) -> Truth:
        if left is None or right is None:
            return None
        left_type = type(left)
        if left_type is type(right):
            return left_type in kinds and compare(left, right)
        if left_type in _NUMBERS and type(right) in _NUMBERS:
            return compare(_promoted(left), _promoted(right))
        return False

    return test


def _reckoning(reckon: Callable[[Any, Any], object], on_floats: Callable[[float, float], float]) -> Reckon:
    def result(left: object, right: object) -> object:
        if type(left) is int and type(right) is int:
            return reckon(left, right)
        if type(left) in _NUMBERS and type(right) in _NUMBERS:
            return on_floats(_promoted(left), _promoted(right))
        return None

    return result


def _promoted(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _divide_integers(left: int, right: int) -> int | None:
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


def _divide_floats(left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def negative(value: object) -> object:
    """Return a number with the other sign; NULL for anything else."""
    return -value if isinstance(value, int | float) and type(value) in _NUMBERS else None


def positive(value: object) -> object:
    """Return a number; NULL for anything else."""
    return value if type(value) in _NUMBERS else None


COMPARISONS: Mapping[ComparisonSign, Compare] = MappingProxyType(
    {
        "=": _comparing(operator.eq, _SCALARS),
        "<>": _comparing(operator.ne, _SCALARS),
        "<": _comparing(operator.lt, _NUMBERS),
        "<=": _comparing(operator.le, _NUMBERS),
        ">": _comparing(operator.gt, _NUMBERS),
        ">=": _comparing(operator.ge, _NUMBERS),
    }
)

ARITHMETIC: Mapping[ArithmeticSign, Reckon] = MappingProxyType(
    {
        "+": _reckoning(operator.add, operator.add),
        "-": _reckoning(operator.sub, operator.sub),
        "*": _reckoning(operator.mul, operator.mul),
        "/": _reckoning(_divide_integers, _divide_floats),
    }
)
