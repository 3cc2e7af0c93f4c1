"""The header of a message: ``(resend_count-previous_offset-last_offset-sequence)``.

Offsets belong to COMMITs in the publisher's log and are padded to ten digits, as in
``(0-0000923200-0000923357-0)``; ``sequence`` numbers the parts of one transaction. The header shows the kind
of a message:

===============  ========  ==================================================================
offsets          sequence  kind
===============  ========  ==================================================================
previous < last  0         SINGLE: one or more whole transactions
previous = last  0         FIRST part of a transaction
previous = last  > 0       MIDDLE part
previous < last  > 0       LAST part: holds the COMMIT, and may hold whole transactions after it
previous > last  any       malformed
===============  ========  ==================================================================
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

from history.store.watermark import MAX_OFFSET, Offset

#: Digits of an offset, at least.
OFFSET_DIGITS: Final = 10

#: The greatest count: the columns are 32-bit integers.
MAX_COUNT: Final = 2**31 - 1

_COUNT = r"(0|[1-9][0-9]{0,9})"
_OFFSET = rf"([0-9]{{{OFFSET_DIGITS},20}})"
_FORM = re.compile(rf"\({_COUNT}-{_OFFSET}-{_OFFSET}-{_COUNT}\)")


class HeaderError(ValueError):
    """The text is not a header, so its message counts as one that never arrived."""


class PacketKind(Enum):
    """The contents of a message."""

    SINGLE = "one or more whole transactions"
    FIRST = "first part"
    MIDDLE = "middle part"
    LAST = "last part"


@dataclass(frozen=True, slots=True, order=True)
class Header:
    """The identity of a message. The order of headers of one resend count is the order of sending.

    All four fields tell a message from another. The original names three, but a publisher that died before it
    stored ``log_sent`` sends the same range again, perhaps in greater groups: equal start, other end.

    Raises:
        HeaderError: a number is negative or too great, or the offsets run backwards.
    """

    resend_count: int
    previous_offset: Offset
    last_offset: Offset
    sequence: int

    def __post_init__(self) -> None:
        if not 0 <= self.resend_count <= MAX_COUNT or not 0 <= self.sequence <= MAX_COUNT:
            raise HeaderError(f"a count is not between 0 and {MAX_COUNT}: {self}")
        if not 0 <= self.previous_offset <= self.last_offset <= MAX_OFFSET:
            raise HeaderError(f"the offsets run backwards or are not between 0 and {MAX_OFFSET}: {self}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a header; offsets of other releases may be padded to up to 20 digits.

        Raises:
            HeaderError: ``text`` is anything else.
        """
        numbers = _FORM.fullmatch(text)
        if numbers is None:
            raise HeaderError(f"not a header: {text[:80]!r}")
        resend_count, previous, last, sequence = map(int, numbers.groups())
        return cls(resend_count, Offset(previous), Offset(last), sequence)

    def __str__(self) -> str:
        previous, last = self.previous_offset, self.last_offset
        return f"({self.resend_count}-{previous:0{OFFSET_DIGITS}}-{last:0{OFFSET_DIGITS}}-{self.sequence})"

    @property
    def kind(self) -> PacketKind:
        """The contents of the message."""
        if self.previous_offset == self.last_offset:
            return PacketKind.MIDDLE if self.sequence else PacketKind.FIRST
        return PacketKind.LAST if self.sequence else PacketKind.SINGLE

    @property
    def is_part(self) -> bool:
        """Whether the message holds a part of a transaction."""
        return self.kind is not PacketKind.SINGLE
