"""The canonical identity: one text for one message, whichever way it comes in.

``Message``, ``uuid=`` of triggers, guards and ``protect`` all call :func:`canonical`. Spark writes the same
rule as SQL, in ``triggers/spark/rows/columns.py``.

======================================  ===================================================================
value                                   identity
======================================  ===================================================================
text                                    as it is
whole number                            in decimal
bytes                                   lower-case hexadecimal
UUID                                    canonical form, such as ``6fa459ea-ee8a-3ca4-894e-db77e160355e``
list or tuple of these                  compact JSON: ``["shop-1",7]``
None, empty text, bytes or list         None
more than 16,384 characters             refused
anything else                           refused: two processes may write it in two ways
======================================  ===================================================================
"""

import json
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NewType, cast
from uuid import UUID

#: The identity of a message: its property ``uuid``, else its JMSMessageID.
Uuid = NewType("Uuid", str)

#: JMSXDeliveryCount if the provider does not count, or if the count cannot be read.
UNDEFINED_COUNT = -1

#: The most characters of an identity, and of each other header of a message.
LONGEST = 16_384

#: The part of a message or call that identifies it.
Key = str | int | bytes | UUID | Sequence[str | int | bytes | UUID] | None

#: How a caller can fix a value that is refused.
REMEDY = "use text, a whole number, bytes, a UUID, or a list of these, such as str(order.id)"


class IdentityError(ValueError):
    """A value cannot be an identity; ``problem`` gives the reason."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; {REMEDY}")
        self.problem = problem


def canonical(value: object) -> str | None:
    """Return the identity of a value; None if the value is None or empty.

    Raises:
        IdentityError: the value has no canonical form, or its form is too long.
    """
    if type(value) is str:
        return _checked(value)
    if value is None:
        return None
    part = _part(value)
    if isinstance(part, list):
        return _checked(json.dumps(part, ensure_ascii=False, separators=(",", ":"))) if part else None
    return _checked(str(part))


def _checked(identity: str) -> str | None:
    if len(identity) > LONGEST:
        raise IdentityError(f"{len(identity)} characters are too many for an identity ({LONGEST} at most)")
    return identity or None


def _part(value: object) -> Any:
    """Return text and whole numbers unchanged, other values in canonical form as text, and lists as lists."""
    match value:
        case str():
            return str.__str__(value)
        case bytes() | bytearray() | memoryview():
            return bytes(cast("bytes", value)).hex()
        case UUID():
            return str(value)
        case bool():
            raise IdentityError("a bool cannot be an identity")
        case Integral():
            return _whole(int(value))
        case list() | tuple():
            return [_field(field) for field in cast("Sequence[object]", value)]
        case _:
            raise IdentityError(f"a {type(value).__qualname__} cannot be an identity")


def _field(value: object) -> Any:
    if value is None:
        raise IdentityError("a field of the list is None")
    if isinstance(value, list | tuple):
        raise IdentityError("a list in a list cannot be an identity")
    return _part(value)


def _whole(number: int) -> int:
    try:
        str(number)
    except ValueError:  # more digits than Python writes
        raise IdentityError("the number is too long") from None
    return number
