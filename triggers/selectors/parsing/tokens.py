"""From text to words: names, texts, numbers and symbols, each with its place."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from triggers.selectors.errors import SelectorError
from triggers.selectors.parsing.numbers import NUMBER, read_number

#: Names that are not identifiers, in upper or lower case.
KEYWORDS = frozenset(["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"])

_SPACE = re.compile(r"[ \t\f\r\n]*")
_TEXT = re.compile(r"'((?:[^']|'')*)'")
_SYMBOL = re.compile(r"<>|<=|>=|=(?!=)|[<>+\-*/(),]")
_PATH_SYMBOL = re.compile(r"[.\[\]]")

#: The Unicode categories of Java's identifiers: letters, letter numbers, currency signs and connectors; then
#: digits, marks and invisible characters.
_LETTERS = frozenset(["Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"])
_PARTS = _LETTERS | {"Nd", "Mn", "Mc", "Cf"}


class Sort(Enum):
    """The sorts of words; the value names one for a reader."""

    NAME = "a name"
    KEYWORD = "a keyword"
    TEXT = "a text in quotes"
    NUMBER = "a number"
    SYMBOL = "a symbol"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """One word. ``text`` is its text (a keyword in capitals), ``position`` counts from 0."""

    sort: Sort
    text: str
    position: int
    number: int | float = 0


def starts_name(character: str) -> bool:
    """Whether a character may begin an identifier of Java."""
    return unicodedata.category(character) in _LETTERS


def is_name(text: str) -> bool:
    """Whether a text is an identifier of Java."""
    return text != "" and starts_name(text[0]) and _end_of_name(text, 0) == len(text)


def scan(text: str, setting: str, *, paths: bool) -> list[Token]:
    """Return the words of a text and :attr:`Sort.END`; ``paths`` admits the symbols of body paths.

    Raises:
        SelectorError: something in it is not a word.
    """
    return list(_words(text, setting, paths=paths))


def _words(text: str, setting: str, *, paths: bool) -> Iterator[Token]:
    position = _skip_space(text, 0)
    while position < len(text):
        token, after = _next(text, position, setting, paths=paths)
        yield token
        position = _skip_space(text, after)
    yield Token(Sort.END, "the end", len(text))


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _next(text: str, start: int, setting: str, *, paths: bool) -> tuple[Token, int]:
    first = text[start]
    if starts_name(first):
        end = _end_of_name(text, start)
        word = text[start:end]
        keyword = word.upper()
        # Only ASCII letters make a keyword: the long s of Unicode is an S in capitals.
        if word.isascii() and keyword in KEYWORDS:
            return Token(Sort.KEYWORD, keyword, start), end
        return Token(Sort.NAME, word, start), end
    if found := _TEXT.match(text, start):
        return Token(Sort.TEXT, found[1].replace("''", "'"), start), found.end()
    if found := NUMBER.match(text, start):
        return _number(found, text, setting), found.end()
    if found := _SYMBOL.match(text, start) or (_PATH_SYMBOL.match(text, start) if paths else None):
        return Token(Sort.SYMBOL, found[0], start), found.end()
    raise _unreadable(text, start, setting, paths=paths)


def _end_of_name(text: str, start: int) -> int:
    end = start + 1
    while end < len(text) and unicodedata.category(text[end]) in _PARTS:
        end += 1
    return end


def _number(found: re.Match[str], text: str, setting: str) -> Token:
    start, end = found.span()
    value = read_number(found)
    if end < len(text) and unicodedata.category(text[end]) in _PARTS:
        end, value = _end_of_name(text, end), None
    if value is None:
        raise SelectorError(
            setting,
            f"{text[start:end]:.40} is not a number",
            position=start,
            expected="a number in the range of Java's long or double, such as 57, 0x1F or -57.9E2",
        )
    return Token(Sort.NUMBER, found[0], start, value)


def _unreadable(text: str, position: int, setting: str, *, paths: bool) -> SelectorError:
    match text[position]:
        case "'":
            problem, expected = "a text begins and does not end", "a ' after it (' within it is written '')"
        case '"':
            problem, expected = '" is not a quote', "texts in single quotes, such as 'EU'"
        case "!":
            problem, expected = "! is not an operator", "<> for not equal, or NOT"
        case "=":
            problem, expected = "== is not an operator", "="
        case "." | "[" if not paths:
            problem, expected = "a selector cannot look into the body", "a header or property, or use filter="
        case other:
            problem, expected = f"{other!r} is not understood", "a condition such as JMSPriority > 4"
    return SelectorError(setting, problem, position=position, expected=expected)
