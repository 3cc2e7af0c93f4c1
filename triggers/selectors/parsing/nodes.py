"""A condition as a tree: the parser makes it, the compiler compiles it, and it can be written back as text.

Sequences of one precedence (``a AND b AND c``, ``a + b - c``) are one node, so that a long condition is wide
and not deep; an expression in parentheses is a separate node.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

#: The values of a literal.
ConstantValue = bool | int | float | str

ComparisonSign = Literal["=", "<>", "<", "<=", ">", ">="]
ArithmeticSign = Literal["+", "-", "*", "/"]


class ValueKind(Enum):
    """The kinds of an expression, as far as its text shows them."""

    CONDITION = "a condition"
    NUMBER = "a number"
    TEXT = "text"
    ANY = "a property"


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: ConstantValue


@dataclass(frozen=True, slots=True)
class Identifier:
    """A header or a property."""

    name: str


@dataclass(frozen=True, slots=True)
class Path:
    """A place in the body, or a property with a name that is not an identifier; only filters have these."""

    root: Literal["body", "properties"]
    keys: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Signed:
    """A sign before anything but a number literal, which has its sign in its value."""

    sign: Literal["+", "-"]
    operand: "Node"


@dataclass(frozen=True, slots=True)
class ArithmeticChain:
    """Additions and subtractions, or multiplications and divisions, from left to right."""

    first: "Node"
    rest: tuple[tuple[ArithmeticSign, "Node"], ...]


@dataclass(frozen=True, slots=True)
class ComparedValues:
    """Two values compared."""

    sign: ComparisonSign
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Between:
    """Whether a number is between two others, inclusive."""

    operand: "Node"
    low: "Node"
    high: "Node"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    """Whether a text is in a list."""

    operand: Identifier | Path
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a text matches a pattern."""

    operand: Identifier | Path
    pattern: str
    escape: str | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether the value is missing."""

    operand: Identifier | Path
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    operands: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of them."""

    operands: tuple["Node", ...]


Node = (
    Constant
    | Identifier
    | Path
    | Signed
    | ArithmeticChain
    | ComparedValues
    | Between
    | In
    | Like
    | IsNull
    | Not
    | And
    | Or
)
