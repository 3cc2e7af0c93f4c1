"""Fingerprints of rows, by the rule of ``@trigger(fingerprint=)``, and their identities as digests.

A copy under one uuid has the same fingerprint. It is computed in Python, a partition at a time, before rows
are brought together; eight bytes of it travel on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from history.entry import DIGEST_SIZE, digests
from history.store.fingerprints import FINGERPRINT_SIZE
from triggers.pipeline.bodies import keeper_of, lasting_for
from triggers.service.fingerprints import fingerprint_of
from triggers.spark.connections import history_at, patiently
from triggers.spark.rows.arrow import (
    Array,
    Numbers,
    RecordBatch,
    first_of_groups,
    mapped,
    only,
    rows_of,
    texts,
    valid,
    with_numbers,
)
from triggers.spark.rows.messages import body_of, plain
from triggers.spark.settings import Columns

#: The column that is added to rows with compared bodies: the fingerprint as a whole number.
FINGERPRINT = "__doubtless_fingerprint"

#: The fingerprint of a row that has nothing to compare.
NOTHING = 0

#: Returns the fingerprint of a row as a whole number.
_Read = Callable[[Mapping[str, Any]], int]

_arrow: Any = pa

#: Each byte with its bits in reverse order.
_TURNED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint16)


def with_fingerprints(rows: DataFrame, columns: Columns) -> DataFrame:
    """Return rows with their fingerprints, if the settings want bodies compared."""
    if columns.fingerprint is None:
        return rows
    schema = StructType([*rows.schema.fields, StructField(FINGERPRINT, LongType(), nullable=False)])
    read = partial(_number_of, columns=columns)
    return mapped(rows, partial(_widened, read=read), schema, name="doubtless_fingerprint")


def bytes_of(number: int) -> bytes:
    """Return a fingerprint as histories store it."""
    return number.to_bytes(FINGERPRINT_SIZE, signed=True)


def number_of(fingerprint: bytes) -> int:
    """Return a fingerprint as a column holds it."""
    # One in 2**64 equals NOTHING by chance, and gets the number of its neighbour.
    return int.from_bytes(fingerprint, signed=True) or 1


def _widened(batches: Iterator[RecordBatch], read: _Read) -> Iterator[RecordBatch]:
    for batch in batches:
        yield with_numbers(batch, FINGERPRINT, [read(row) for row in rows_of(batch)])


def _number_of(row: Mapping[str, Any], columns: Columns) -> int:
    match columns.fingerprint:
        case str():
            own = {name: value for name, value in row.items() if not name.startswith("__doubtless_")}
            return number_of(fingerprint_of(body_of(own, columns)))
        case (name,):
            counts = body_of(row, Columns(uuid=columns.uuid, body=name))
            return NOTHING if counts is None else number_of(fingerprint_of(counts))
        case names:
            return number_of(fingerprint_of(plain([row[name] for name in names or ()])))


@dataclass(slots=True)
class FirstBodies:
    """Finds rows of one partition, with sorted keys, that do not have the first body of their uuid.

    It compares bodies before the rows are claimed, as a pipeline does with messages. The history keeps the
    first fingerprint under a uuid, with one call for many rows. A row with another fingerprint is not
    claimed, and it is not a duplicate: it gets a second look, and the table rejects it (row 23).
    """

    url: str
    trigger: str
    time_to_live: timedelta
    patience: timedelta
    #: The fingerprint that came first under the last key so far.
    _last: int = NOTHING

    def unlike(self, keys: Array, groups: Numbers, prints: Numbers) -> Numbers:
        """Return which rows of a batch have another body than the first one of their key.

        ``groups`` number the keys: rows of group 0 have the last key of the batch before.
        """
        if not len(groups):
            return np.zeros(0, bool)
        printed = valid(keys) & (prints != NOTHING)
        asked = first_of_groups(groups, printed, begun=self._last != NOTHING)
        firsts = np.zeros(groups[-1] + 1, np.int64)
        firsts[0] = self._last
        if asked.any():
            firsts[groups[asked]] = self._first_of_each(texts(only(keys, asked)), prints[asked])
        self._last = int(firsts[groups[-1]])
        differs: Numbers = printed & (firsts[groups] != prints)
        return differs

    def _first_of_each(self, uuids: Sequence[str], prints: Numbers) -> Sequence[int]:
        bodies = [(uuid, bytes_of(int(number))) for uuid, number in zip(uuids, prints, strict=True)]
        kept, lasting = keeper_of(history_at(self.url)), lasting_for(self.time_to_live)
        firsts = patiently(self.patience, kept.first_of_each, self.trigger, bodies, lasting)
        return [number_of(first) for first in firsts]


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
