"""From text to words: names, texts, numbers and symbols, each with its place; and a cursor over them."""

import math
import re
import struct
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from history.errors import ConfigurationError

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

#: The range of Java's long; its least literal is the negative of LONGEST + 1.
LONGEST = 2**63 - 1

_BITS = 64

_DIGITS = r"[0-9](?:_*[0-9])*"
_HEX = r"[0-9a-fA-F](?:_*[0-9a-fA-F])*"

#: Number literals, in the syntax of the Java language, as the Jakarta Messaging specification requires.
#:
#: Exact ones are Java's integer literals in the range of long: decimal, ``0x`` hexadecimal, ``0`` octal,
#: ``0b`` binary, with ``_`` between digits and an optional ``L``. Approximate ones are its floating-point
#: literals: ``7.``, ``.5``, ``-57.9E2``, ``0x1.8p3``, with an optional ``D``, or ``F`` for single precision.
NUMBER = re.compile(
    rf"""
    (?P<hex_real> 0[xX] (?: {_HEX}\.?(?:{_HEX})? | \.{_HEX} ) [pP][+-]?{_DIGITS} [fFdD]? )
  | (?P<based> 0[xX]{_HEX}[lL]? | 0[bB][01](?:_*[01])*[lL]? )
  | (?P<real> (?: {_DIGITS}\.(?:{_DIGITS})? | \.{_DIGITS} ) (?:[eE][+-]?{_DIGITS})? [fFdD]?
            | {_DIGITS} [eE][+-]?{_DIGITS} [fFdD]?
            | {_DIGITS} [fFdD] )
  | (?P<whole> {_DIGITS}[lL]? )
    """,
    re.VERBOSE,
)


def read_number(match: re.Match[str]) -> int | float | None:
    """Return the value of a literal that :data:`NUMBER` found; None if Java has no such number.

    A decimal literal of LONGEST + 1 is returned as it is: it may follow a minus, and nothing else.
    """
    text = match[0].replace("_", "").lower()
    match match.lastgroup:
        case "hex_real" | "real":
            return _read_real(text)
        case "based":
            digits = text.removesuffix("l")[2:]
            return _read_bits(digits, 16 if text[1] == "x" else 2)
        case _:
            return _read_whole(text.removesuffix("l"))


def _read_real(text: str) -> float | None:
    written = text.rstrip("fd")
    try:
        value = float.fromhex(written) if written.startswith("0x") else float(written)
        if text.endswith("f"):
            value = float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _read_whole(digits: str) -> int | None:
    if digits.startswith("0"):
        return _read_bits(digits, 8) if set(digits) <= set("01234567") else None
    # Do not call int() yet: it refuses thousands of digits with a different error.
    value = int(digits) if len(digits) <= len(str(LONGEST)) else LONGEST + 2
    return value if value <= LONGEST + 1 else None


def _read_bits(digits: str, base: int) -> int | None:
    """Read the bits of a long, as Java does: the highest one is its sign."""
    value = int(digits, base) if len(digits.lstrip("0")) <= _BITS else 1 << _BITS
    if value >> _BITS:
        return None
    return value - (1 << _BITS) if value > LONGEST else value


class Sort(Enum):
    """The sorts of words; the value names one for a reader."""

    NAME = "a name"
    KEYWORD = "a keyword"
    TEXT = "a text in quotes"
    NUMBER = "a number"
    SYMBOL = "a symbol"
    END = "the end"


@dataclass(frozen=True, slots=True)
class SelectorToken:
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


def scan(text: str, setting: str, *, paths: bool) -> list[SelectorToken]:
    """Return the words of a text and :attr:`Sort.END`; ``paths`` admits the symbols of body paths.

    Raises:
        SelectorError: something in it is not a word.
    """
    return list(_words(text, setting, paths=paths))


def _words(text: str, setting: str, *, paths: bool) -> Iterator[SelectorToken]:
    position = _skip_space(text, 0)
    while position < len(text):
        token, after = _next(text, position, setting, paths=paths)
        yield token
        position = _skip_space(text, after)
    yield SelectorToken(Sort.END, "the end", len(text))


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _next(text: str, start: int, setting: str, *, paths: bool) -> tuple[SelectorToken, int]:
    first = text[start]
    if starts_name(first):
        end = _end_of_name(text, start)
        word = text[start:end]
        keyword = word.upper()
        # Only ASCII letters make a keyword: the long s of Unicode is an S in capitals.
        if word.isascii() and keyword in KEYWORDS:
            return SelectorToken(Sort.KEYWORD, keyword, start), end
        return SelectorToken(Sort.NAME, word, start), end
    if match := _TEXT.match(text, start):
        return SelectorToken(Sort.TEXT, match[1].replace("''", "'"), start), match.end()
    if match := NUMBER.match(text, start):
        return _number(match, text, setting), match.end()
    if match := _SYMBOL.match(text, start) or (_PATH_SYMBOL.match(text, start) if paths else None):
        return SelectorToken(Sort.SYMBOL, match[0], start), match.end()
    raise _unreadable(text, start, setting, paths=paths)


def _end_of_name(text: str, start: int) -> int:
    end = start + 1
    while end < len(text) and unicodedata.category(text[end]) in _PARTS:
        end += 1
    return end


def _number(match: re.Match[str], text: str, setting: str) -> SelectorToken:
    start, end = match.span()
    value = read_number(match)
    if end < len(text) and unicodedata.category(text[end]) in _PARTS:
        end, value = _end_of_name(text, end), None
    if value is None:
        raise SelectorError(
            setting,
            f"{text[start:end]:.40} is not a number",
            position=start,
            expected="a number in the range of Java's long or double, such as 57, 0x1F or -57.9E2",
        )
    return SelectorToken(Sort.NUMBER, match[0], start, value)


class SelectorError(ConfigurationError):
    """The text is not a condition. ``position`` counts characters from 0, the text of the error from 1."""

    __module__ = "triggers"

    def __init__(self, setting: str, problem: str, *, position: int, expected: str) -> None:
        super().__init__(setting, f"{problem} at character {position + 1}", f"expected {expected}")
        self.position = position
        self.expected = expected


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


#: The sorts of words with a fixed meaning.
_FIXED = frozenset({Sort.SYMBOL, Sort.KEYWORD})


class Cursor:
    """Reads the words of one text from left to right."""

    def __init__(self, text: str, setting: str, *, paths: bool) -> None:
        self._text = text
        self._setting = setting
        self._tokens = scan(text, setting, paths=paths)
        self._next = 0

    @property
    def token(self) -> SelectorToken:
        """The next word."""
        return self._tokens[self._next]

    @property
    def operator(self) -> str | None:
        """The next word, if it is a symbol or a keyword."""
        return self.token.text if self.token.sort in _FIXED else None

    def written(self, token: SelectorToken) -> str:
        """Return a name or keyword as it was written."""
        return self._text[token.position : token.position + len(token.text)]

    def advance(self) -> SelectorToken:
        """Return the next word, and move to the one after it."""
        token = self.token
        self._next += 1
        return token

    def take(self, *operators: str) -> bool:
        """Move on if the next word is one of these."""
        if self.operator not in operators:
            return False
        self._next += 1
        return True

    def expect(self, operator: str) -> None:
        """Move on after this word.

        Raises:
            SelectorError: the next word is another one.
        """
        if not self.take(operator):
            self.fail(operator)

    def text_literal(self, what: str) -> str:
        """Return the text literal at this place.

        Raises:
            SelectorError: the next word is not a text literal.
        """
        if self.token.sort is not Sort.TEXT:
            self.fail(what)
        return self.advance().text

    def fail(self, expected: str, problem: str | None = None, *, at: SelectorToken | None = None) -> NoReturn:
        """Report what was expected, at the next word unless told otherwise.

        Raises:
            SelectorError: always.
        """
        raise self.failure(expected, problem, at=at)

    def failure(
        self, expected: str, problem: str | None = None, *, at: SelectorToken | None = None
    ) -> SelectorError:
        """Return the error that :meth:`fail` raises."""
        token = at or self.token
        shown = token.text if token.sort is Sort.END else f"{token.text!r:.40}"
        return SelectorError(self._setting, problem or shown, position=token.position, expected=expected)
