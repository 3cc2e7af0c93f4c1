"""The edge to pyarrow, which has no types: batches of a DataFrame, and Python rows as such batches."""

import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute as pc  # pyright: ignore[reportMissingTypeStubs]
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas import functions
from pyspark.sql.types import ByteType, StructType

from triggers.spark.rows.kinds import (
    UNREADABLE_VARIANT,
    as_sent,
    cast_to,
    has_nested_keys,
    holds_variants,
    in_known_zones,
    with_variants,
)
from triggers.spark.rows.older_spark import arrow_schema, over_pandas

#: A ``pyarrow.RecordBatch``, and one column of it.
RecordBatch = Any
Array = Any

Result = TypeVar("Result")

#: Small numbers or truth values, one for each row.
Numbers = np.ndarray[Any, Any]

_arrow: Any = pa
_compute: Any = pc


#: Raised for a value that its column cannot hold: a lone surrogate, a number beyond 64 bits.
UNSTORABLE: tuple[type[Exception], ...] = (_arrow.ArrowException, UnicodeEncodeError, OverflowError)


#: A column name that has no special meaning for Spark.
_PLAIN_NAME = re.compile(r"\w+")

# The process that has settled in; a worker is a fork of a process that has not.
_settled_in: list[int] = []


def settling_in(results: Iterable[Result]) -> Iterator[Result]:
    """Yield results; after the first result of a worker, exclude loaded objects from its garbage collection.

    Spark's workers collect garbage after every task. A pass over all loaded objects took 40 ms, longer than
    the claims of a small batch. The first result loads the driver of the history, so this comes after it.
    """
    for result in results:
        if os.getpid() not in _settled_in:
            _settled_in[:] = [os.getpid()]
            gc.collect()
            gc.freeze()
        yield result


def byte_column(
    verdicts: Callable[[Iterator[tuple[Array, ...]]], Iterator[Numbers]], name: str
) -> Callable[..., Column]:
    """Return a function of columns that makes a column of bytes, a partition at a time.

    The first column is of text, the others are of whole numbers, without nulls. Spark shows the function
    under ``name``.
    """

    def columns(columns_of_batches: Iterator[tuple[Array, ...]]) -> Iterator[Numbers]:
        return settling_in(verdicts(columns_of_batches))

    made: Any = (_over_arrow if hasattr(functions, "arrow_udf") else over_pandas)(columns, name)
    # Another computation would claim again: harmless, but it costs time.
    return cast("Callable[..., Column]", made.asNondeterministic())


def _over_arrow(columns: Callable[[Iterator[tuple[Array, ...]]], Iterator[Numbers]], name: str) -> Any:
    def batches(columns_of_batches: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        for column in columns(cast("Any", columns_of_batches)):
            yield _arrow.array(column, _arrow.int8())

    # Spark reads the kind of the function from its annotations.
    batches.__annotations__ = {
        "columns_of_batches": Iterator[tuple[_arrow.Array, ...]],
        "return": Iterator[_arrow.Array],
    }
    batches.__name__ = name
    return cast("Any", functions).arrow_udf(batches, ByteType())


def mapped(
    frame: DataFrame,
    work: Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]],
    schema: StructType | str,
    *,
    name: str,
) -> DataFrame:
    """Return the results of a function for each partition; Spark shows it under ``name``.

    Columns may have any names.
    """
    names = frame.columns
    # Spark looks up each column by its name, and reads a dot in it as a field of a struct.
    renamed = not all(_PLAIN_NAME.fullmatch(name) for name in names)

    def batches(arriving: Iterator[Any]) -> Iterator[Any]:
        return settling_in(
            work(batch.rename_columns(names) for batch in arriving) if renamed else work(arriving)
        )

    batches.__name__ = name
    plain: Any = frame.toDF(*(f"_{index}" for index in range(len(names)))) if renamed else frame
    made = cast_to(plain, as_sent(plain.schema))
    if isinstance(schema, str):
        return cast("DataFrame", cast("Any", made).mapInArrow(batches, schema))
    return cast_to(cast("Any", made).mapInArrow(batches, as_sent(schema)), schema)


class BrokenText(bytes):
    """A text that is not UTF-8, as it came."""


class OutOfRange(str):
    """An instant or a day beyond Python's range, as text."""

    __slots__ = ()


class OddArrowRow(dict[str, Any]):
    """A row with a value that Python cannot hold: :class:`BrokenText` or :class:`OutOfRange`, somewhere.

    Or it has a map with one key twice, which is a list of pairs, or a variant that Python cannot read, which
    stays its two parts. ``column`` is the first such column.
    """

    def __init__(self, values: Mapping[str, Any], column: str) -> None:
        super().__init__(values)
        self.column = column


#: How maps become Python values: as dictionaries that hold each key, or as pairs.
_Maps = Literal["strict"] | None

#: Raised for a value that Python cannot hold; a dictionary holds no key twice.
_ODD = (ValueError, OverflowError, KeyError)


def rows_of(batch: RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of a batch as Python values; an odd row does not affect the others.

    A map is a dictionary. A dictionary cannot have nested keys, so a map with such keys is a list of pairs.
    """
    batch = in_known_zones(batch)
    try:
        rows = _rows_at_once(batch)
    except _ODD:
        rows = [_row(batch.slice(index, 1)) for index in range(cast("int", batch.num_rows))]
    for field in batch.schema:
        if holds_variants(field.type):
            rows = [_with_variants(row, field) for row in rows]
    return rows


def _rows_at_once(batch: RecordBatch) -> list[dict[str, Any]]:
    names: list[str] = batch.schema.names
    if not any(map(has_nested_keys, batch.schema.types)):
        return cast("list[dict[str, Any]]", batch.to_pylist(maps_as_pydicts="strict"))
    columns = [column.to_pylist(maps_as_pydicts=_maps_in(column)) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _maps_in(column: Array) -> _Maps:
    return None if has_nested_keys(column.type) else "strict"


def _with_variants(row: dict[str, Any], field: Any) -> dict[str, Any]:
    try:
        row[field.name] = with_variants(row[field.name], field.type)
    except UNREADABLE_VARIANT:
        return row if isinstance(row, OddArrowRow) else OddArrowRow(row, field.name)
    return row


def _row(batch: RecordBatch) -> dict[str, Any]:
    row, odd = dict[str, Any](), list[str]()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        as_maps = _maps_in(column)
        try:
            row[name] = column[0].as_py(maps_as_pydicts=as_maps)
        except _ODD:
            row[name] = _odd(column[0], as_maps)
            odd.append(name)
    return OddArrowRow(row, odd[0]) if odd else row


def _odd(value: Any, maps: _Maps) -> Any:
    """Return a value of Arrow, part by part."""
    data_type = value.type
    if not value.is_valid or not _arrow.types.is_nested(data_type):
        return _odd_leaf(value)
    if _arrow.types.is_struct(data_type):
        return {
            data_type.field(index).name: _odd(value[index], maps) for index in range(data_type.num_fields)
        }
    if not _arrow.types.is_map(data_type):
        return [_odd(item, maps) for item in value.values]
    pairs = [(_odd(item["key"], maps), _odd(item["value"], maps)) for item in value.values]
    if maps is None:
        return pairs
    made = dict(pairs)
    return made if len(made) == len(pairs) else pairs


def _odd_leaf(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return BrokenText(value.as_buffer().to_pybytes())
    except (ValueError, OverflowError):
        return OutOfRange(value.cast(_arrow.string()).as_py())


def chunks_of(batch: RecordBatch, size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a batch, at most ``size`` at a time."""
    for start in range(0, cast("int", batch.num_rows), size):
        yield rows_of(batch.slice(start, size))


def text_batch(columns: Mapping[str, Iterable[str | None]]) -> RecordBatch:
    """Return columns of text as a batch."""
    arrays = [_arrow.array(list(column), _arrow.string()) for column in columns.values()]
    return _arrow.RecordBatch.from_arrays(arrays, names=list(columns))


def widened(
    batch: RecordBatch, texts: Mapping[str, Sequence[str | None]], truths: Mapping[str, Sequence[bool]]
) -> RecordBatch:
    """Return a batch with more columns."""
    added = [_arrow.array(column, _arrow.string()) for column in texts.values()]
    added += [_arrow.array(column, _arrow.bool_()) for column in truths.values()]
    names = [*batch.schema.names, *texts, *truths]
    return _arrow.RecordBatch.from_arrays([*batch.columns, *added], names=names)


def with_numbers(batch: RecordBatch, name: str, column: Sequence[int]) -> RecordBatch:
    """Return a batch with one more column, of whole numbers."""
    added = _arrow.array(column, _arrow.int64())
    return _arrow.RecordBatch.from_arrays([*batch.columns, added], names=[*batch.schema.names, name])


def valid(keys: Array) -> Numbers:
    """Return which values are not null."""
    return cast("Numbers", keys.is_valid().to_numpy(zero_copy_only=False))


def numbers(column: Array) -> Numbers:
    """Return a column of numbers."""
    return cast("Numbers", column.to_numpy(zero_copy_only=False))


def only(keys: Array, wanted: Numbers) -> Array:
    """Return the values that are wanted."""
    return keys.filter(_arrow.array(wanted))


def texts(keys: Array) -> list[str]:
    """Return a column of texts."""
    return cast("list[str]", keys.to_pylist())


def last_of(keys: Array) -> str | None:
    """Return the last text."""
    return cast("str | None", keys[-1].as_py())


def firsts(keys: Array, before: str | None) -> Numbers:
    """Return which texts differ from the one before; ``before`` precedes the first, and a null differs."""
    size = len(keys)
    differ = np.ones(size, bool)
    if size > 1:
        unequal = _compute.fill_null(_compute.not_equal(keys[1:], keys[:-1]), True)  # noqa: FBT003
        differ[1:] = unequal.to_numpy(zero_copy_only=False)
    if size and before is not None:
        differ[0] = keys[0].as_py() != before
    return differ


def first_of_groups(groups: Numbers, wanted: Numbers, *, begun: bool) -> Numbers:
    """Return which rows are the first wanted ones of their group; groups are contiguous.

    If group 0 has ``begun`` in a batch before, its first row was there.
    """
    indexes = np.flatnonzero(wanted)
    of_each, is_first = groups[indexes], np.zeros(len(groups), bool)
    is_first[indexes] = np.diff(of_each, prepend=0 if begun else -1) != 0
    return is_first


def record_batch(rows: Sequence[Sequence[Any]], schema: StructType) -> RecordBatch:
    """Return rows as one batch with exactly the types that Spark wants for ``schema``.

    Raises:
        one of UNSTORABLE: a value does not fit its column.
    """
    wanted = arrow_schema(schema)
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(wanted)
    arrays = [
        _arrow.array(column, data_type) for column, data_type in zip(columns, wanted.types, strict=True)
    ]
    return _arrow.RecordBatch.from_arrays(arrays, schema=wanted)
