"""From words to a tree: a Pratt parser with a limited depth, and the meaning of names.

Precedence, from loose to tight: OR; AND; NOT; comparisons, but never two in a row; ``+ -``; ``* /``; signs.
Source: Jakarta Messaging 3.1, section 3.8.1.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import cast

from triggers.selectors.parsing import nodes
from triggers.selectors.parsing.like import EscapeError, compile_like
from triggers.selectors.parsing.tokens import LONGEST, Cursor, SelectorToken, Sort
from triggers.selectors.parsing.values import CONDITIONS, FILTER_HEADERS, NUMBERS, SELECTOR_HEADERS, kind_of

#: How deep parentheses, NOT and signs may nest: far from Python's own limit, and from what anybody can read.
MAX_DEPTH = 100


class Power(IntEnum):
    """How tightly an operator binds its operands."""

    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7


_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS", "IN", "LIKE", "BETWEEN", "NOT")
_POWERS: Mapping[str | None, Power] = {
    "OR": Power.OR,
    "AND": Power.AND,
    **dict.fromkeys(_COMPARISONS, Power.COMPARISON),
    **dict.fromkeys("+-", Power.SUM),
    **dict.fromkeys("*/", Power.PRODUCT),
}


def parse(text: str, setting: str = "selector", *, paths: bool = False) -> nodes.Node:
    """Return the tree of a condition; ``paths`` admits body paths, as filters do.

    Raises:
        SelectorError: it is not a condition; the error calls it ``setting``.
    """
    return _Parser(Cursor(text, setting, paths=paths), paths=paths).parse()


class _Parser:
    """One reading of one text."""

    def __init__(self, cursor: Cursor, *, paths: bool) -> None:
        self._cursor = cursor
        self._paths = paths
        self._depth = 0

    def parse(self) -> nodes.Node:
        """Read the whole text."""
        start = self._cursor.token
        tree = self._expression(Power.OR)
        self._check(tree, start, CONDITIONS)
        if self._cursor.token.sort is not Sort.END:
            complete = kind_of(tree) is nodes.ValueKind.CONDITION
            self._cursor.fail("AND, OR or the end" if complete else "a comparison such as = 'EU'")
        return tree

    def _expression(self, floor: Power) -> nodes.Node:
        """Read everything that binds at least as tightly as ``floor``."""
        start = self._cursor.token
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._cursor.fail(f"at most {MAX_DEPTH} levels", f"{start.text!r:.40} nests too deep")
        left = self._prefix(floor)
        while (power := self._power()) is not None and power >= floor:
            left = self._infix(left, start, power)
        self._depth -= 1
        return left

    def _checked(self, floor: Power, wanted: frozenset[nodes.ValueKind]) -> nodes.Node:
        start = self._cursor.token
        node = self._expression(floor)
        self._check(node, start, wanted)
        return node

    def _check(self, node: nodes.Node, start: SelectorToken, wanted: frozenset[nodes.ValueKind]) -> None:
        node_kind = kind_of(node)
        if node_kind not in wanted:
            expected = "a number" if wanted is NUMBERS else "a condition such as JMSPriority > 4"
            problems = (
                {nodes.ValueKind.TEXT: "text is compared with = and <> only"} if wanted is NUMBERS else {}
            )
            self._cursor.fail(expected, problems.get(node_kind, f"this is {node_kind.value}"), at=start)

    def _power(self) -> Power | None:
        return _POWERS.get(self._cursor.operator)

    def _prefix(self, floor: Power) -> nodes.Node:
        cursor = self._cursor
        token = cursor.token
        match token.sort:
            case Sort.TEXT:
                return nodes.Constant(cursor.advance().text)
            case Sort.NUMBER:
                return self._number(negative=False)
            case Sort.NAME:
                return read_name(cursor, paths=self._paths)
            case _:
                return self._marked(token, floor)

    def _marked(self, token: SelectorToken, floor: Power) -> nodes.Node:
        """Read an expression that begins with a symbol or a keyword."""
        cursor = self._cursor
        if cursor.take("TRUE", "FALSE"):
            return nodes.Constant(token.text == "TRUE")
        if cursor.take("("):
            inner = self._expression(Power.OR)
            cursor.expect(")")
            return inner
        if cursor.take("+", "-"):
            if cursor.token.sort is Sort.NUMBER:
                return self._number(negative=token.text == "-")
            return nodes.Signed("-" if token.text == "-" else "+", self._checked(Power.SIGN, NUMBERS))
        if floor <= Power.NOT and cursor.take("NOT"):
            return nodes.Not(self._checked(Power.NOT, CONDITIONS))
        null = cursor.operator == "NULL"
        raise cursor.failure(
            "IS NULL or IS NOT NULL, as nothing equals NULL"
            if null
            else "a header, a property, a literal or ("
        )

    def _number(self, *, negative: bool) -> nodes.Constant:
        number = self._cursor.token.number
        if not negative and isinstance(number, int) and number > LONGEST:
            self._cursor.fail("a number in the range of Java's long")
        self._cursor.advance()
        return nodes.Constant(-number if negative else number)

    def _infix(self, left: nodes.Node, start: SelectorToken, power: Power) -> nodes.Node:
        match power:
            case Power.OR:
                return nodes.Or(self._operands(left, start, power))
            case Power.AND:
                return nodes.And(self._operands(left, start, power))
            case Power.SUM | Power.PRODUCT:
                return self._chain(left, start, power)
            case _:
                test = self._comparison(left, start)
                if self._power() is Power.COMPARISON:
                    self._cursor.fail("AND, OR or the end, because comparisons cannot follow each other")
                return test

    def _operands(self, left: nodes.Node, start: SelectorToken, power: Power) -> tuple[nodes.Node, ...]:
        self._check(left, start, CONDITIONS)
        operands = [left]
        while self._power() is power:
            self._cursor.advance()
            operands.append(self._checked(Power(power + 1), CONDITIONS))
        return tuple(operands)

    def _chain(self, left: nodes.Node, start: SelectorToken, power: Power) -> nodes.ArithmeticChain:
        self._check(left, start, NUMBERS)
        rest: list[tuple[nodes.ArithmeticSign, nodes.Node]] = []
        while self._power() is power:
            sign = cast("nodes.ArithmeticSign", self._cursor.advance().text)
            rest.append((sign, self._checked(Power(power + 1), NUMBERS)))
        return nodes.ArithmeticChain(left, tuple(rest))

    def _comparison(self, left: nodes.Node, start: SelectorToken) -> nodes.Node:
        cursor = self._cursor
        operator = cursor.advance().text
        if operator == "IS":
            negated = cursor.take("NOT")
            cursor.expect("NULL")
            return nodes.IsNull(self._identifier(left, start), negated=negated)
        negated = operator == "NOT"
        if negated:
            operator = cursor.token.text
            if not cursor.take("IN", "LIKE", "BETWEEN"):
                cursor.fail("IN, LIKE or BETWEEN")
        match operator:
            case "IN":
                return nodes.In(self._text(left, start), self._texts(), negated=negated)
            case "LIKE":
                return self._like(self._text(left, start), negated=negated)
            case "BETWEEN":
                return self._between(left, start, negated=negated)
            case _:
                return self._compared(left, start, cast("nodes.ComparisonSign", operator))

    def _identifier(self, node: nodes.Node, start: SelectorToken) -> nodes.Identifier | nodes.Path:
        if not isinstance(node, nodes.Identifier | nodes.Path):
            self._cursor.fail("a header or property before IS NULL, IN and LIKE", at=start)
        return node

    def _text(self, node: nodes.Node, start: SelectorToken) -> nodes.Identifier | nodes.Path:
        """Return the operand of IN and LIKE; a header that is not text would never match."""
        identifier = self._identifier(node, start)
        if kind_of(identifier) not in {nodes.ValueKind.TEXT, nodes.ValueKind.ANY}:
            self._cursor.fail(
                "a text before IN and LIKE", f"{start.text} is {kind_of(identifier).value}", at=start
            )
        return identifier

    def _compared(
        self, left: nodes.Node, start: SelectorToken, sign: nodes.ComparisonSign
    ) -> nodes.ComparedValues:
        if sign in {"=", "<>"}:
            right_start = self._cursor.token
            right = self._expression(Power.SUM)
            self._check_comparable(left, right, right_start)
            return nodes.ComparedValues(sign, left, right)
        self._check(left, start, NUMBERS)
        return nodes.ComparedValues(sign, left, self._checked(Power.SUM, NUMBERS))

    def _check_comparable(self, left: nodes.Node, right: nodes.Node, start: SelectorToken) -> None:
        """Refuse values of two kinds, which are neither equal nor unequal: nothing would ever match."""
        kinds = kind_of(left), kind_of(right)
        if nodes.ValueKind.ANY not in kinds and kinds[0] is not kinds[1]:
            named = (
                f"{kinds[0].value} and {kinds[1].value} are never equal or unequal: it would match nothing"
            )
            self._cursor.fail(kinds[0].value, named, at=start)

    def _between(self, left: nodes.Node, start: SelectorToken, *, negated: bool) -> nodes.Between:
        self._check(left, start, NUMBERS)
        low = self._checked(Power.SUM, NUMBERS)
        self._cursor.expect("AND")
        return nodes.Between(left, low, self._checked(Power.SUM, NUMBERS), negated=negated)

    def _texts(self) -> tuple[str, ...]:
        self._cursor.expect("(")
        literals = [self._cursor.text_literal("a text in quotes")]
        while self._cursor.take(","):
            literals.append(self._cursor.text_literal("a text in quotes"))
        if not self._cursor.take(")"):
            self._cursor.fail(", or )")
        return tuple(literals)

    def _like(self, operand: nodes.Identifier | nodes.Path, *, negated: bool) -> nodes.Like:
        cursor = self._cursor
        token = cursor.token
        pattern, escape = cursor.text_literal("a pattern in quotes"), None
        if cursor.take("ESCAPE"):
            if len(cursor.token.text) != 1:
                cursor.fail("a text of one character")
            escape = cursor.text_literal("a text of one character")
        try:
            compile_like(pattern, escape)
        except EscapeError as error:
            cursor.fail("%, _ or itself after it", str(error), at=token)
        return nodes.Like(operand, pattern, escape, negated=negated)


def read_name(cursor: Cursor, *, paths: bool) -> nodes.Identifier | nodes.Path:
    """Read a header, a property or, with ``paths``, a place in the body.

    Raises:
        SelectorError: no message can be selected by it.
    """
    token = cursor.advance()
    if paths and token.text in {"body", "properties"}:
        return _read_path(cursor, token)
    headers = FILTER_HEADERS if paths else SELECTOR_HEADERS
    # Every other name with this beginning is reserved, and most likely a typing error.
    if token.text.startswith("JMS") and not _is_known(token.text, headers):
        names = ", ".join(name for name in headers if not name.startswith("JMSX"))
        cursor.fail(f"one of {names}", f"{token.text} is not a header to select by", at=token)
    return nodes.Identifier(token.text)


def _read_path(cursor: Cursor, root: SelectorToken) -> nodes.Path:
    keys: list[str | int] = []
    while cursor.operator in {".", "["}:
        keys.append(_read_key(cursor))
    if root.text == "body":
        return nodes.Path("body", tuple(keys))
    if len(keys) != 1 or not isinstance(keys[0], str):
        cursor.fail("one name, as in properties.region", "properties hold one value each", at=root)
    return nodes.Path("properties", tuple(keys))


def _read_key(cursor: Cursor) -> str | int:
    if cursor.take("."):
        # As a key, a keyword is a name like any other.
        if cursor.token.sort in {Sort.NAME, Sort.KEYWORD}:
            return cursor.written(cursor.advance())
        cursor.fail("a name, or brackets as in ['order-id']")
    cursor.expect("[")
    token = cursor.token
    if token.sort is Sort.TEXT:
        key: str | int = token.text
    elif token.sort is Sort.NUMBER and isinstance(token.number, int):
        key = token.number
    else:
        cursor.fail("a number from 0 or a text in quotes")
    cursor.advance()
    cursor.expect("]")
    return key


def _is_known(name: str, headers: Collection[str]) -> bool:
    return name in headers or name.startswith(("JMSX", "JMS_"))
