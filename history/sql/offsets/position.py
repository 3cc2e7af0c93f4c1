"""The settled part of a partition: all before one offset, and ranges beyond. This module does no I/O.

Messages of a partition are settled out of order, so one number is not enough. Ranges are written as text:
``7-9,12`` are the offsets 7, 8, 9 and 12.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

#: The first and the last offset of a range.
Range = tuple[int, int]

_TEXT = re.compile(r"(?:\d{1,19}(?:-\d{1,19})?(?:,\d{1,19}(?:-\d{1,19})?)*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Position:
    """Everything before ``next_offset`` is settled, and so are the ranges ``beyond`` it.

    The ranges are in order; between two ranges there is something that is not settled.
    """

    next_offset: int
    beyond: tuple[Range, ...] = ()

    @classmethod
    def read(cls, next_offset: int, text: str) -> Self:
        """Read the text that :attr:`text` has written.

        Raises:
            ValueError: the text has another form.
        """
        if next_offset < 0 or _TEXT.fullmatch(text) is None:
            raise ValueError(f"{next_offset} and {text[:60]!r} are no offsets")
        return cls(next_offset).settled(ranges_in(text))

    @property
    def text(self) -> str:
        """The ranges as text, for :meth:`read`."""
        return ",".join(map(written, self.beyond))

    def has(self, offset: int) -> bool:
        """Whether a message is settled."""
        return offset < self.next_offset or within(self.beyond, offset)

    def settled(self, ranges: Iterable[Range]) -> Self:
        """Return the position after these ranges are settled."""
        (_, last), *beyond = merged([(-1, self.next_offset - 1), *self.beyond, *ranges])
        return type(self)(last + 1, tuple(beyond))

    def reopened(self, offset: int) -> Self:
        """Return the position after a message stops being settled."""
        pieces = [(0, self.next_offset - 1), *self.beyond]
        before = [(first, min(last, offset - 1)) for first, last in pieces]
        after = [(max(first, offset + 1), last) for first, last in pieces]
        (_, last), *beyond = merged([(-1, -1), *before, *after])
        return type(self)(last + 1, tuple(beyond))

    def missing(self, until: int) -> int:
        """Count the messages before ``until`` that are not settled."""
        settled = sum(max(0, min(last, until - 1) - first + 1) for first, last in self.beyond)
        return max(0, until - self.next_offset) - settled


def written(piece: Range) -> str:
    """Write a range."""
    first, last = piece
    return str(first) if first == last else f"{first}-{last}"


def ranges_in(text: str) -> Iterator[Range]:
    """Read ranges, with commas between them."""
    for piece in text.split(","):
        if piece:
            first, _, last = piece.partition("-")
            yield int(first), int(last or first)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in order; ranges that touch or overlap are merged."""
    result: list[Range] = []
    for first, last in sorted(ranges):
        if last < first:
            continue
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return result


def within(ranges: Sequence[Range], offset: int) -> bool:
    """Whether an offset is in one of some ordered ranges."""
    following = bisect_right(ranges, offset, key=_first)
    return following > 0 and offset <= ranges[following - 1][1]


def _first(piece: Range) -> int:
    return piece[0]
