"""Identities as digests: a line of bytes for each, as a history stores them.

Every Python worker imports this module, so it imports little.
"""

from typing import Any

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

from history.entry import DIGEST_SIZE, digests
from triggers.spark.rows.arrow import Array, Numbers

_arrow: Any = pa

#: Each byte with its bits in reverse order.
_TURNED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint16)


def digests_of(texts: Array) -> Numbers:
    """Return the digests of a column of texts without nulls, a line of bytes for each."""
    large = _arrow.types.is_large_string(texts.type)
    encoded = texts.cast(_arrow.large_binary() if large else _arrow.binary())
    packed = digests(encoded.to_numpy(zero_copy_only=False))
    return np.frombuffer(packed, np.uint8).reshape(-1, DIGEST_SIZE)


def near(lines: Numbers) -> Numbers:
    """Return the indexes of digests, grouped as a history stores them.

    Redis has them in buckets, chosen by the last bits of the first four bytes, however many bits are used.
    """
    return np.argsort(_TURNED[lines[:, 3]] << 8 | _TURNED[lines[:, 2]], kind="stable")


def first_of_each(lines: Numbers) -> Numbers:
    """Return for each digest the index of the first equal digest."""
    high, other = _halves(lines)
    order = np.lexsort((other, high))  # a stable sort: of equal digests, the first stays the first
    differs = np.ones(len(lines), bool)
    differs[1:] = (high[order][1:] != high[order][:-1]) | (other[order][1:] != other[order][:-1])
    starts = np.flatnonzero(differs)
    first = np.empty(len(lines), np.int64)
    first[order] = np.repeat(order[starts], np.diff(starts, append=len(lines)))
    return first


class MetDigests:
    """The digests that a task has met: sorted pieces, each at least twice as long as the next."""

    def __init__(self) -> None:
        self._pieces: list[tuple[Numbers, Numbers]] = []

    def add(self, lines: Numbers) -> None:
        """Remember digests."""
        if not len(lines):
            return
        self._pieces.append(_sorted(*_halves(lines)))
        while len(self._pieces) > 1 and len(self._pieces[-2][0]) < 2 * len(self._pieces[-1][0]):
            (high, other), (more, others) = self._pieces.pop(), self._pieces.pop()
            self._pieces.append(_sorted(np.concatenate((more, high)), np.concatenate((others, other))))

    def has(self, lines: Numbers) -> Numbers:
        """Return which digests were met."""
        high, other = _halves(lines)
        order = np.argsort(high)  # searches in sorted order take a third of the time
        high, other = high[order], other[order]
        met = np.zeros(len(lines), bool)
        for ones, others in self._pieces:
            at = np.searchsorted(ones, high)
            while True:
                # Another digest may have the same first half, though this was never observed.
                inside = np.minimum(at, len(ones) - 1)
                same = (at < len(ones)) & (ones[inside] == high)
                met |= same & (others[inside] == other)
                if not (same & ~met).any():
                    break
                at = at + (same & ~met)
        answers = np.empty(len(lines), bool)
        answers[order] = met
        return answers


def _halves(lines: Numbers) -> tuple[Numbers, Numbers]:
    halves = np.ascontiguousarray(lines).view(np.uint64)
    return halves[:, 0], halves[:, 1]


def _sorted(high: Numbers, other: Numbers) -> tuple[Numbers, Numbers]:
    order = np.argsort(high, kind="stable")
    return high[order], other[order]
