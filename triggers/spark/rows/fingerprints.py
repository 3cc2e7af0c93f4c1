"""Fingerprints of rows, by the rule of ``@trigger(fingerprint=)``: a copy under one uuid has the same one.

Computed in Python, a partition at a time, before rows are brought together; eight bytes of it travel on.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from history.store.fingerprints import FINGERPRINT_SIZE
from triggers.service.fingerprints import fingerprint_of
from triggers.spark.rows.arrow import RecordBatch, mapped, rows_of, with_numbers
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
