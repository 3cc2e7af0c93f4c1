"""The parser's position in a text, and its errors about what it expected there."""

from typing import NoReturn

from triggers.selectors.parsing.tokens import SelectorError, Sort, Token, scan

#: The sorts of words with a fixed meaning.
_FIXED = frozenset({Sort.SYMBOL, Sort.KEYWORD})


class Cursor:
    """Reads the words of one text from left to right."""

    def __init__(self, text: str, setting: str, *, paths: bool) -> None:
        self._text = text
        self._setting = setting
        self._tokens = scan(text, setting, paths=paths)
        self._place = 0

    @property
    def token(self) -> Token:
        """The next word."""
        return self._tokens[self._place]

    @property
    def operator(self) -> str | None:
        """The next word, if it is a symbol or a keyword."""
        return self.token.text if self.token.sort in _FIXED else None

    def written(self, token: Token) -> str:
        """Return a name or keyword as it was written."""
        return self._text[token.position : token.position + len(token.text)]

    def advance(self) -> Token:
        """Return the next word, and move to the one after it."""
        token = self.token
        self._place += 1
        return token

    def take(self, *operators: str) -> bool:
        """Move on if the next word is one of these."""
        if self.operator not in operators:
            return False
        self._place += 1
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

    def fail(self, expected: str, problem: str | None = None, *, at: Token | None = None) -> NoReturn:
        """Report what was expected, at the next word unless told otherwise.

        Raises:
            SelectorError: always.
        """
        raise self.failure(expected, problem, at=at)

    def failure(self, expected: str, problem: str | None = None, *, at: Token | None = None) -> SelectorError:
        """Return the error that :meth:`fail` raises."""
        token = at or self.token
        found = token.text if token.sort is Sort.END else f"{token.text!r:.40}"
        return SelectorError(self._setting, problem or found, position=token.position, expected=expected)
