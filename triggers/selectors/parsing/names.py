"""The meaning of names: headers, properties and, in filters, places in the body."""

from collections.abc import Collection

from triggers.selectors.parsing.cursor import Cursor
from triggers.selectors.parsing.tokens import Sort, Token
from triggers.selectors.parsing.tree import Identifier, Path
from triggers.selectors.parsing.values import FILTER_HEADERS, SELECTOR_HEADERS


def read_name(cursor: Cursor, *, paths: bool) -> Identifier | Path:
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
        known = ", ".join(name for name in headers if not name.startswith("JMSX"))
        cursor.fail(f"one of {known}", f"{token.text} is not a header to select by", at=token)
    return Identifier(token.text)


def _read_path(cursor: Cursor, root: Token) -> Path:
    keys: list[str | int] = []
    while cursor.operator in {".", "["}:
        keys.append(_read_key(cursor))
    if root.text == "body":
        return Path("body", tuple(keys))
    if len(keys) != 1 or not isinstance(keys[0], str):
        cursor.fail("one name, as in properties.region", "properties hold one value each", at=root)
    return Path("properties", tuple(keys))


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
