"""Types that differ between Spark, Arrow and Python: intervals, instants of some zones, variants."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, types
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

_arrow: Any = pa

#: Types that Spark does not pass to Python in batches of Arrow, and that it reads from their own text.
_UNKNOWN_TO_ARROW = tuple(
    getattr(types, name)  # some came with 4.0
    for name in ("YearMonthIntervalType", "CalendarIntervalType")
    if hasattr(types, name)
)

#: Raised for a variant that Python cannot read: an instant beyond its range, too many levels, broken bytes.
UNREADABLE_VARIANT: tuple[type[Exception], ...] = (
    ValueError,
    OverflowError,
    RecursionError,
    PySparkException,
)


def as_sent(schema: StructType) -> StructType:
    """Return a schema that Arrow can hold: with text for the missing intervals."""
    return cast("StructType", _as_sent(schema))


def _as_sent(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            fields = (
                StructField(field.name, _as_sent(field.dataType), field.nullable, field.metadata)
                for field in data_type.fields
            )
            return StructType(list(fields))
        case ArrayType():
            return ArrayType(_as_sent(data_type.elementType), data_type.containsNull)
        case MapType():
            return MapType(
                _as_sent(data_type.keyType), _as_sent(data_type.valueType), data_type.valueContainsNull
            )
        case _:
            return StringType() if isinstance(data_type, _UNKNOWN_TO_ARROW) else data_type


def cast_to(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return a frame with the column types of a schema; mostly it has them."""
    if frame.schema == schema:
        return frame
    quoted = [f"`{field.name.replace('`', '``')}`" for field in schema.fields]
    kinds = zip(quoted, frame.schema.fields, schema.fields, strict=True)
    return frame.select(
        *(
            name
            if there.dataType == wanted.dataType
            else frame[name].cast(wanted.dataType).alias(wanted.name)
            for name, there, wanted in kinds
        )
    )


def in_known_zones(batch: Any) -> Any:
    """Return a batch with instants that Python can read: in UTC if it does not know the session's zone.

    Spark knows more zones than Python does, such as GMT+08:00, which is the JVM's own in many containers.
    """
    schema = _arrow.schema([_with_known_zone(field) for field in batch.schema])
    return batch if schema.equals(batch.schema) else batch.cast(schema)


def _in_known_zone(data_type: Any) -> Any:
    """Return a type of Arrow, of values or of parts of them, with zones that Python knows."""
    if _arrow.types.is_timestamp(data_type):
        is_known = data_type.tz is None or _is_known_zone(data_type.tz)
        return data_type if is_known else _arrow.timestamp(data_type.unit, "UTC")
    if _arrow.types.is_struct(data_type):
        parts = (data_type.field(index) for index in range(data_type.num_fields))
        return _arrow.struct([_with_known_zone(part) for part in parts])
    if _arrow.types.is_map(data_type):
        return _arrow.map_(*(_with_known_zone(part) for part in (data_type.key_field, data_type.item_field)))
    if _arrow.types.is_list(data_type):
        return _arrow.list_(_with_known_zone(data_type.value_field))
    return data_type


def _with_known_zone(field: Any) -> Any:
    return field.with_type(_in_known_zone(field.type))


@cache
def _is_known_zone(zone: str) -> bool:
    try:
        _arrow.lib.string_to_tzinfo(zone)
    except Exception:  # noqa: BLE001  (each library of zones has another exception)
        return False
    return True


def _is_variant(data_type: Any) -> bool:
    if not _arrow.types.is_struct(data_type):
        return False
    parts = [data_type.field(index) for index in range(data_type.num_fields)]
    return any(part.metadata and part.metadata.get(b"variant") == b"true" for part in parts)


def holds_variants(data_type: Any) -> bool:
    """Return whether values of a type of Arrow are or contain variants."""
    return _is_variant(data_type) or any(map(holds_variants, _parts_of(data_type)))


def has_nested_keys(data_type: Any) -> bool:
    """Return whether a type of Arrow is or contains a map with keys of structs or lists."""
    is_map = _arrow.types.is_map(data_type)
    return (is_map and _arrow.types.is_nested(data_type.key_type)) or any(
        map(has_nested_keys, _parts_of(data_type))
    )


def _parts_of(data_type: Any) -> list[Any]:
    is_nested = _arrow.types.is_nested(data_type)
    return [data_type.field(index).type for index in range(data_type.num_fields)] if is_nested else []


def with_variants(value: Any, data_type: Any) -> Any:
    """Return a value with the JSON content of its variants, in place of their two parts."""
    if value is None or not holds_variants(data_type):
        return value
    if _is_variant(data_type):
        return _content_of(types.VariantVal(value["value"], value["metadata"]))
    if _arrow.types.is_struct(data_type):
        parts = [data_type.field(index) for index in range(data_type.num_fields)]
        return {part.name: with_variants(value[part.name], part.type) for part in parts}
    if not _arrow.types.is_map(data_type):
        return [with_variants(item, data_type.value_type) for item in value]
    if isinstance(value, dict):
        items: Mapping[Any, Any] = cast("Any", value)
        return {key: with_variants(item, data_type.item_type) for key, item in items.items()}
    return [(key, with_variants(item, data_type.item_type)) for key, item in value]


def _content_of(variant: Any) -> Any:
    try:
        return json.loads(str(variant))
    except json.JSONDecodeError:  # it holds NaN or an infinity
        return variant.toPython()
