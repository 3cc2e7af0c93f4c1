"""A condition as a tree: what the parser makes, what is compiled, and what is written back as text.

Sequences of one precedence (``a AND b AND c``, ``a + b - c``) are one node, so that a long condition is wide
and not deep; what was in parentheses is a node of its own.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

#: What a literal may be.
ConstantValue = bool | int | float | str

ComparisonSign = Literal["=", "<>", "<", "<=", ">", ">="]
ArithmeticSign = Literal["+", "-", "*", "/"]


class ValueKind(Enum):
    """What an expression can be, as far as its text tells."""

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
    """A place in the body, or a property whose name is no identifier; only filters have these."""

    root: Literal["body", "properties"]
    keys: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Signed:
    """A sign before anything but a number literal, which has its sign in its value."""

    sign: Literal["+", "-"]
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Chain:
    """Additions and subtractions, or multiplications and divisions, from left to right."""

    first: "Node"
    rest: tuple[tuple[ArithmeticSign, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared."""

    sign: ComparisonSign
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Between:
    """Whether a number is within two others, these included."""

    operand: "Node"
    low: "Node"
    high: "Node"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    """Whether a text is one of some."""

    operand: Identifier | Path
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a text has a form."""

    operand: Identifier | Path
    pattern: str
    escape: str | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether there is nothing."""

    operand: Identifier | Path
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; of unknown, unknown."""

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
    Constant | Identifier | Path | Signed | Chain | Comparison | Between | In | Like | IsNull | Not | And | Or
)
