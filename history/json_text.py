"""The one reader of JSON bodies, and the canonical form by which two bodies are compared.

JSON is read once and without loss: the bytes that arrived are kept with the value that they mean. Filters,
``uuid=``, fingerprints and services read the same value.
"""

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Self, cast

from pydantic import JsonValue

#: How many levels deep a JSON value may be nested: as deep as pydantic reads.
MOST_NESTED = 200

_NESTED = frozenset({dict, list})

#: Every limit that :func:`sys.set_int_max_str_digits` takes allows numbers with fewer bits.
_SAFE_BITS = 2000

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NotJsonError(ValueError):
    """A text is not JSON that can be read."""


class JsonText:
    """JSON as it arrived: ``raw`` is its bytes, ``value`` is what they mean."""

    __slots__ = ("raw", "value")

    def __init__(self, raw: bytes, value: JsonValue) -> None:
        self.raw = raw
        self.value = value


class ExactFloat(float):
    """A number with more digits than a float keeps. ``str()`` gives all digits, so ``Decimal`` gets them."""

    __slots__ = ("_digits",)
    _digits: str

    def __new__(cls, digits: str) -> Self:
        """Keep the digits with the number."""
        number = super().__new__(cls, digits)
        number._digits = digits
        return number

    def __str__(self) -> str:
        return self._digits

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)


def read_json(raw: bytes | str, *, exact: bool = False) -> JsonText:
    """Read JSON, with or without a byte order mark.

    It also reads NaN and Infinity, which Python writes, and halves of surrogate pairs. ``exact`` reads
    numbers with a fraction as :class:`ExactFloat`.

    Raises:
        NotJsonError: it is not JSON in UTF-8, or is nested more than :data:`MOST_NESTED` levels deep.
    """
    sent = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    try:
        value = json.loads(without_mark(sent).decode("utf-8", "surrogatepass"), **(_EXACT if exact else {}))
    except RecursionError:
        raise NotJsonError(f"is nested more than {MOST_NESTED} levels deep") from None
    except ValueError as error:
        raise NotJsonError(f"is not JSON ({error})") from error
    # With fewer brackets it cannot be nested too deeply.
    if sent.count(b"[") + sent.count(b"{") > MOST_NESTED and isinstance(value, dict | list):
        refuse_unreadable(cast("object", value))
    return JsonText(sent, cast("JsonValue", value))


_EXACT: dict[str, Any] = {"parse_float": ExactFloat}


def without_mark(raw: bytes) -> bytes:
    """Return JSON without a byte order mark."""
    return raw.removeprefix(_BYTE_ORDER_MARK)


def refuse_unreadable(value: object) -> None:
    """Refuse a value that no reader could read again.

    Raises:
        NotJsonError: it is nested more than :data:`MOST_NESTED` levels deep, or a whole number has more
            digits than Python reads.
    """
    level: list[Any] = [[value]]
    for _ in range(MOST_NESTED + 2):
        parts = [part for whole in level for part in (whole.values() if hasattr(whole, "values") else whole)]
        if any(type(part) is int and has_too_many_digits(part) for part in parts):
            raise NotJsonError("has a whole number with too many digits; send it as text")
        level = [part for part in parts if type(part) in _NESTED]
        if not level:
            return
    raise NotJsonError(f"is nested more than {MOST_NESTED} levels deep")


def has_too_many_digits(number: int) -> bool:
    """Whether Python refuses to write and to read all digits of a whole number."""
    if number.bit_length() < _SAFE_BITS:
        return False
    try:
        str(number)
    except ValueError:
        return True
    return False


def canonical_json(body: object) -> bytes:
    """Return the form in which two JSON bodies are equal if they say the same, to the last digit.

    The order of names, white space and the spelling of a number (``10``, ``10.0``, ``1e1``) make no
    difference. A name that occurs twice does. Bytes and text are read as JSON.

    Raises:
        NotJsonError: bytes or text are not JSON.
    """
    try:
        if isinstance(body, bytes):
            text = without_mark(body).decode("utf-8", "surrogatepass")
        else:
            text = body if isinstance(body, str) else json.dumps(body)
        read = json.loads(text, parse_float=_number, parse_int=_number, object_pairs_hook=_names)
        return json.dumps(read, separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise NotJsonError(f"is nested more than {MOST_NESTED} levels deep") from None
    except UnicodeError as error:
        raise NotJsonError(f"is not UTF-8 ({error})") from error
    except json.JSONDecodeError as error:
        raise NotJsonError(f"is not JSON ({error})") from error


def _names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The sort is stable: if a name occurs twice, the order of its values counts.
    return {"{": sorted(pairs, key=lambda pair: pair[0])}


def _number(text: str) -> dict[str, str]:
    try:
        sign, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:  # an exponent that is too long even for Decimal
        return {"#": text}
    significant = "".join(map(str, digits)).lstrip("0")
    kept = significant.rstrip("0")
    power = int(exponent) + len(significant) - len(kept)
    return {"#": f"{'-' if sign else ''}{kept}e{power}" if kept else "0"}
