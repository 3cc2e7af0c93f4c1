"""Local filters of Integration Server in the language of selectors.

There, a filter compares fields of the JMS message: ``%properties/region% == "EU" && %body/amount% > 100``.
Only comparisons, joined by and, or and not, are translated. Anything else is left to a person.
"""

import re
from typing import Final

from triggers.selectors.parsing.parser import parse
from triggers.selectors.parsing.tokens import is_name

#: The parts of a filter. Their order matters.
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<field>%[^%]+%) | (?P<text>"[^"]*"|'[^']*') | (?P<number>-?\d+(?:\.\d+)?)
    | (?P<null>\$null\b) | (?P<sign>==|=|!=|<>|<=|>=|<|>)
    | (?P<both>&&|&|\band\b) | (?P<either>\|\||\||\bor\b) | (?P<not>!|\bnot\b)
    | (?P<open>\() | (?P<close>\))
    )""",
    re.VERBOSE | re.IGNORECASE,
)

_SIGNS: Final = {"==": "=", "=": "=", "!=": "<>", "<>": "<>"}
_WORDS: Final = {"both": "AND", "either": "OR", "not": "NOT", "open": "(", "close": ")"}

#: Where a JMS message has its parts, from its root or from the document that holds it.
_ROOTS: Final = ("JMSMessage/", "/")


def selector_of(text: str) -> str | None:
    """Return a filter as ours; None if it has something that is not translated."""
    tokens = _tokens(text.strip())
    if not tokens:
        return None
    pieces: list[str] = []
    while tokens:
        symbol, value = tokens.pop(0)
        if symbol in _WORDS:
            pieces.append(_WORDS[symbol])
        elif symbol == "field" and len(tokens) > 1 and tokens[0][0] == "sign":
            comparison = _comparison(value, tokens.pop(0)[1], *tokens.pop(0))
            if comparison is None:
                return None
            pieces.append(comparison)
        else:
            return None
    made = " ".join(pieces).replace("( ", "(").replace(" )", ")")
    return made if _is_valid(made) else None


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return the parts of a filter; none if a part of it is unknown."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            return []
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


def _comparison(field: str, sign: str, symbol: str, value: str) -> str | None:
    name, sign = _name(field.strip("%")), _SIGNS.get(sign, sign)
    if name is None:
        return None
    match symbol:
        case "null" if sign in {"=", "<>"}:
            return f"{name} IS NULL" if sign == "=" else f"{name} IS NOT NULL"
        case "text":
            quoted = value[1:-1].replace("'", "''")
            return f"{name} {sign} '{quoted}'"
        case "number":
            return f"{name} {sign} {value}"
        case _:
            return None


def _name(path: str) -> str | None:
    """Return a header, a property or a path into the body; None for any other field."""
    for root in _ROOTS:
        path = path.removeprefix(root)
    part, _, rest = path.partition("/")
    steps = rest.split("/")
    if not all(is_name(step) for step in steps):
        return None
    match part:
        case "properties" if len(steps) == 1:
            return rest
        case "header" | "headers" if len(steps) == 1 and rest.startswith("JMS"):
            return rest
        case "body":
            return "body." + ".".join(steps)
        case _:
            return None


def _is_valid(text: str) -> bool:
    try:
        parse(text, "filter", paths=True)
    except ValueError:
        return False
    return True
