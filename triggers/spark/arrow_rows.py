"""The edge to pyarrow: rows of Python values as the Arrow batches of a DataFrame."""

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
from pyspark.sql.pandas import types
from pyspark.sql.types import StructType

#: A ``pyarrow.RecordBatch``; pyarrow has no types.
RecordBatch = Any

_arrow: Any = pa

#: What is raised for a value that its column cannot hold: a lone surrogate, a number beyond 64 bits.
UNSTORABLE: tuple[type[Exception], ...] = (_arrow.ArrowException, UnicodeEncodeError, OverflowError)


def record_batch(rows: Sequence[Sequence[Any]], schema: StructType) -> RecordBatch:
    """Return rows as one batch whose types are exactly those that Spark wants for ``schema``.

    Raises:
        one of UNSTORABLE: a value is too much for its column.
    """
    wanted = cast("Any", types).to_arrow_schema(schema, timezone="UTC")
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(wanted)
    arrays = [_arrow.array(column, kind) for column, kind in zip(columns, wanted.types, strict=True)]
    return _arrow.RecordBatch.from_arrays(arrays, schema=wanted)
