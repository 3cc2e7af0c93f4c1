"""Number literals, in the syntax of the Java language, as the Jakarta Messaging specification requires.

Exact ones are Java's integer literals in the range of long: decimal, ``0x`` hexadecimal, ``0`` octal, ``0b``
binary, with ``_`` between digits and an optional ``L``. Approximate ones are its floating-point literals:
``7.``, ``.5``, ``-57.9E2``, ``0x1.8p3``, with an optional ``D``, or ``F`` for single precision.
"""

import math
import re
import struct

#: The range of Java's long; its least literal is the negative of LONGEST + 1.
LONGEST = 2**63 - 1

_BITS = 64

_DIGITS = r"[0-9](?:_*[0-9])*"
_HEX = r"[0-9a-fA-F](?:_*[0-9a-fA-F])*"

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
