"""Rules that take values out of texts, such as card numbers out of errors, before a text is kept or logged.

A rule is a function that takes a text and returns it without these values. The rules here replace each value
with a fixed marker. They take any text and never raise. Applied to their own result, they change nothing.
Their time grows no faster than the length of the text.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

#: A rule of a user: a function that returns a text without the values that must not be shown.
Rule = Callable[[str], str]

#: One rule, or several that are applied one after the other; None for none.
Redact = Rule | Sequence[Rule] | None

#: How many digits a card number has, and how many characters an IBAN, at least and at most.
_CARD_DIGITS, _IBAN_CHARACTERS = (13, 19), (15, 34)

#: A shorter credential after "Bearer" may be a word of a sentence, unless it holds more than letters.
_LONGEST_WORD = 20

CARD, IBAN, SECRET = "(redacted: card number)", "(redacted: IBAN)", "(redacted: secret)"

#: At least as many digits as a card number has, each with at most one space or dash before the next.
_DIGITS = re.compile(r"\d(?:[ \t\u00a0\u2009\u202f\u2010-\u2014-]?\d){12,}")
_GROUP = re.compile(r"\d+")

_IBANS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"[A-Za-z]{2}\d\d[A-Za-z0-9]{11,30}(?![A-Za-z0-9])"
    r"|[A-Z]{2}\d\d(?:[ \u00a0-][A-Z0-9]{4}){2,7}(?:[ \u00a0-][A-Z0-9]{1,4})?(?![A-Za-z0-9])"
    r")",
    re.ASCII,
)

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)

#: Three parts, five if it is encrypted; only at the start of a word, so that no word is read twice.
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{5,}(?:\.[\w-]*){2,4}", re.ASCII)

_CREDENTIALS = re.compile(r"\b(Bearer|Basic)([ \t]+)([\w.~+/=-]{6,})", re.ASCII | re.IGNORECASE)

_URL_PASSWORD = re.compile(r"(?<=://)([^\s/?#@:]*):([^\s/?#]+)@")

#: A name that announces a secret, the characters after it, and the secret: in quotes, or up to a space or a
#: separator of parameters.
_NAMED = re.compile(
    r"((?:passw(?:or)?d|passphrase|pwd|token|api[_-]?key|secret|authorization)(?:[_-]\w{1,20})?"
    r"(?:\\?[\"'])?[ \t]*[=:][ \t]*)"
    rf"(?!{re.escape(SECRET)})"
    r"(?:(?:Bearer|Basic|Digest|Negotiate|Token)[ \t]+)?"
    rf"(?!{re.escape(SECRET)})"
    r"(\\[\"'][^\n\\]*\\[\"']|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[^\s,;&]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule of this module; its name represents it."""

    name: str
    apply: Rule

    def __call__(self, text: str) -> str:
        """Return the text without the values that the rule finds."""
        return self.apply(text)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Redaction:
    """Rules one after the other. If a rule fails, nothing of the text is left: it fails closed."""

    rules: tuple[Rule, ...]

    def __call__(self, text: str) -> str:
        """Return the text without the values that the rules find; only a marker if one of them failed."""
        for number, rule in enumerate(self.rules, 1):
            try:
                redacted: Any = rule(text)
            except Exception:  # noqa: BLE001  (a rule is a user's code)
                redacted = None
            if type(redacted) is not str:
                return f"(redacted: all of it, because rule {number} of redact= failed)"
            text = redacted
        return text


def redaction_of(redact: Redact) -> Redaction | None:
    """Return a callable that applies a user's rules; None if there are none."""
    rules = tuple(rules_of(redact))
    return Redaction(rules) if rules else None


def rules_of(redact: Any) -> Sequence[Any]:
    """Return the rules that a user gives; anything that is not a sequence is one rule."""
    if redact is None:
        return ()
    return cast("Sequence[Any]", redact) if isinstance(redact, list | tuple) else (redact,)


def _without_cards(text: str) -> str:
    return _DIGITS.sub(lambda digits: _marked(digits[0], _cards(digits[0]), CARD), text)


def _marked(text: str, places: Sequence[tuple[int, int]], marker: str) -> str:
    """Replace the places, which are in order, with a marker; places that overlap share one."""
    parts: list[str] = []
    end = 0
    for start, stop in places:
        if start >= end:
            parts += [text[end:start], marker]
        end = max(end, stop)
    return "".join([*parts, text[end:]])


def _cards(text: str) -> list[tuple[int, int]]:
    """Return where card numbers begin and end: whole groups of digits, of a number that passes the check.

    The sums are those of all digits before a place, with the digits at even, or at odd, indexes doubled.
    """
    groups = [(group.start(), group.end()) for group in _GROUP.finditer(text)]
    sums: tuple[list[int], list[int]] = ([0], [0])
    for index, digit in enumerate(int(digit) for start, end in groups for digit in text[start:end]):
        doubled = 2 * digit - 9 * (digit > 4)  # noqa: PLR2004  (the sum of the digits of the doubled digit)
        for parity, sums_of_it in enumerate(sums):
            sums_of_it.append(sums_of_it[-1] + (doubled if index % 2 == parity else digit))
    places: list[tuple[int, int]] = []
    before = 0
    for first, (start, _) in enumerate(groups):
        count, longest = 0, 0
        for begin, end in groups[first : first + _CARD_DIGITS[1]]:
            count += end - begin
            if count > _CARD_DIGITS[1]:
                break
            # The last digit is the check digit (ISO/IEC 7812-1); the one before it is doubled.
            sums_of_it = sums[(before + count) % 2]
            if count >= _CARD_DIGITS[0] and (sums_of_it[before + count] - sums_of_it[before]) % 10 == 0:
                longest = end
        if longest:
            places.append((start, longest))
        before += groups[first][1] - start
    return places


def _without_ibans(text: str) -> str:
    places: list[tuple[int, int]] = []
    candidate = _IBANS.search(text)
    while candidate is not None:
        start = candidate.start()
        if length := _length_of_iban(candidate[0]):
            places.append((start, start + length))
        candidate = _IBANS.search(text, start + 1)  # an IBAN may begin inside text that only looks like one
    return _marked(text, places, IBAN)


def _length_of_iban(text: str) -> int:
    """Return how much of a text is an IBAN, in whole groups, the longest; 0 if none is found.

    ISO 13616 defines the check digits: move the country and check digits to the end, and count letters as two
    digits each.
    """
    country = int("".join(str(int(character, 36)) for character in text[:4]))
    length, count, rest = 0, 4, 0
    for index, character in enumerate(text[4:], 4):
        if not character.isalnum():
            continue
        value = int(character, 36)
        rest = (rest * (100 if value > 9 else 10) + value) % 97  # noqa: PLR2004  (a letter is two digits)
        count += 1
        is_end = index + 1 == len(text) or not text[index + 1].isalnum()
        if is_end and _IBAN_CHARACTERS[0] <= count <= _IBAN_CHARACTERS[1]:
            length = index + 1 if (rest * 1_000_000 + country) % 97 == 1 else length
    return length


def _without_tokens(text: str) -> str:
    for pattern, change in _TOKENS:
        text = pattern.sub(change, text)
    return text


def _credentials(header: re.Match[str]) -> str:
    scheme, space, value = header.groups()
    is_one = _holds_account(value) if scheme.lower() == "basic" else _is_no_word(value)
    return f"{scheme}{space}{SECRET}" if is_one else header[0]


def _holds_account(value: str) -> bool:
    """Whether it is base64 of a user and a password; "basic authentication" is not."""
    try:
        return b":" in b64decode(value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def _is_no_word(value: str) -> bool:
    return len(value) >= _LONGEST_WORD or not value.rstrip(".").isalpha()


_TOKENS: Sequence[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = (
    (_PRIVATE_KEY, SECRET),
    (_NAMED, rf"\1{SECRET}"),
    (_CREDENTIALS, _credentials),
    (_JWT, SECRET),
    (_URL_PASSWORD, rf"\1:{SECRET}@"),
)

#: Card numbers: 13 to 19 digits that pass the Luhn check, in one piece or in groups with a space or a dash
#: between. One number in ten of that length passes it by chance.
CARD_NUMBERS: Rule = NamedRule("CARD_NUMBERS", _without_cards)

#: International bank account numbers with correct check digits, in one piece or in groups of four.
IBANS: Rule = NamedRule("IBANS", _without_ibans)

#: Credentials: after ``Bearer`` and ``Basic``, JSON web tokens, the values of ``password=``, ``token=``,
#: ``api_key=``, ``secret=`` and ``authorization:``, private keys, and the passwords of URLs.
TOKENS: Rule = NamedRule("TOKENS", _without_tokens)
