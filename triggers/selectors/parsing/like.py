"""The patterns of LIKE as regular expressions with bounded time.

The piece between two ``%`` has a fixed length. Taking each piece where it first fits is always right, so each
is an atomic group that is never tried again. The time is at most the length of the text times the length of
the pattern, for any text and pattern.
"""

import re
from collections.abc import Callable


class EscapeError(ValueError):
    """An escape character comes before something without a special meaning."""


def compile_like(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Return a function that says whether a text matches a pattern.

    Raises:
        EscapeError: the escape character escapes nothing.
    """
    pieces = _pieces(pattern, escape)
    if len(pieces) == 1:
        matcher = re.compile(pieces[0], re.DOTALL)
    else:
        first, *middle, last = pieces
        middle_pattern = "".join(f"(?>.*?{piece})" for piece in middle if piece)
        matcher = re.compile(f"{first}{middle_pattern}.*{last}", re.DOTALL)
    return lambda text: matcher.fullmatch(text) is not None


def _pieces(pattern: str, escape: str | None) -> list[str]:
    """Return the regular expressions of the pieces before, between and after the ``%``."""
    pieces = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in {"%", "_", escape}:
                raise EscapeError(f"the escape character {escape} stands before {escaped or 'nothing'}")
            pieces[-1] += re.escape(escaped)
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if character == "_" else re.escape(character)
    return pieces
