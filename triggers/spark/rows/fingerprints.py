"""Fingerprints of rows, by the rule of ``@trigger(fingerprint=)``.

A copy under one uuid has the same fingerprint. So if the whole row is compared, its message id and its
delivery count are not: another delivery of a message has others. The fingerprint is computed in Python, a
partition at a time, before rows are brought together; eight bytes of it travel on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from history.beside.fingerprints import FINGERPRINT_SIZE
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
from triggers.spark.rows.columns import users_of
from triggers.spark.rows.messages import body_of, plain
from triggers.spark.settings import Columns

#: The column that is added to rows with compared bodies: the fingerprint as a whole number.
FINGERPRINT = "__doubtless_fingerprint"

#: The fingerprint of a row that has nothing to compare.
NOTHING = 0

#: Returns the fingerprint of a row as a whole number.
_Read = Callable[[Mapping[str, Any]], int]


def with_fingerprints(rows: DataFrame, columns: Columns) -> DataFrame:
    """Return rows with their fingerprints, if the settings want bodies compared."""
    if columns.fingerprint is None:
        return rows
    schema = StructType([*rows.schema.fields, StructField(FINGERPRINT, LongType(), nullable=False)])
    read = partial(number_of_row, columns=columns)
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


def number_of_row(row: Mapping[str, Any], columns: Columns) -> int:
    """Return the fingerprint of a row, as a column holds it."""
    match columns.fingerprint:
        case str():
            of_delivery = {columns.message_id, columns.delivery_count} if columns.body is None else ()
            own = {name: value for name, value in users_of(row).items() if name not in of_delivery}
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
