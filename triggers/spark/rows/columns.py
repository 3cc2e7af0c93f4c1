"""The message of a row, as Spark SQL, and which column types are possible.

An identity is text, by the rule of :mod:`history.identity`: text as it is, whole numbers in decimal, bytes in
lower-case hexadecimal. Spark may write some types in two ways, by session, version or scale. Such a type is
refused before a row is judged: one identity in two texts would be two messages.

Text, not ``Column`` objects: each part of those is a call to the JVM, and the plan of every micro-batch would
need a hundred calls.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, functions
from pyspark.sql import types as T  # noqa: N812  (as everybody calls it)

from history.errors import ConfigurationError
from history.identity import LONGEST
from history.message import UNDEFINED_COUNT
from triggers.spark.settings import Columns

#: How the names of columns begin that are added to a stream's columns while a batch is processed.
OURS = "__doubtless_"

#: The delivery count of a row with an invalid count.
NO_COUNT = 0


def quoted(name: str) -> str:
    """Return the name of a column as SQL."""
    return f"`{name.replace('`', '``')}`"


_TEXTS = (T.StringType, T.CharType, T.VarcharType)
#: Spark has variants since 4.0.
_UNHASHABLE = (T.MapType, *([T.VariantType] if hasattr(T, "VariantType") else []))
_WHOLE_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def check_frame(columns: Columns, frame: DataFrame) -> None:
    """Do the same as :func:`check_columns`; the session decides whether names have a case.

    Raises:
        ConfigurationError: as there.
    """
    has_case = frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") or ""
    check_columns(columns, frame.schema, has_case=has_case.lower() == "true")


def check_columns(columns: Columns, schema: T.StructType, *, has_case: bool = False) -> None:
    """Refuse a stream that lacks a column, has it twice, or has it with an unsuitable type.

    Raises:
        ConfigurationError: naming the setting, the column, its type and the remedy.
    """
    columns.check(schema.names)
    _refuse_ours(schema.names)
    _refuse_twins(schema.names if has_case else [*map(str.lower, schema.names)])
    for setting in ("uuid", "message_id", "delivery_count"):
        name = getattr(columns, setting)
        if name is None:
            continue
        data_type = schema[name].dataType
        if not _is_text_or_number(data_type) and not (
            isinstance(data_type, T.BinaryType) and setting != "delivery_count"
        ):
            role = "delivery count" if setting == "delivery_count" else "identity"
            raise ConfigurationError(
                setting,
                f"column {name!r} is of type {data_type.simpleString()}, which is no {role}",
                _remedy(name, data_type, setting),
            )


def users_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row without the columns that doubtless has added."""
    return {name: value for name, value in row.items() if not name.startswith(OURS)}


def _refuse_ours(names: Sequence[str]) -> None:
    ours = [name for name in names if name.lower().startswith(OURS)]
    if ours:
        raise ConfigurationError(
            "columns",
            f"the stream has a column {ours[0]!r}, and doubtless adds columns whose names begin with {OURS}",
            "give it another name: withColumnRenamed(...)",
        )


def _refuse_twins(names: Sequence[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ConfigurationError(
            "columns",
            f"the stream has more than one column {twins[0]!r}, apart from its case, and Spark "
            "cannot tell them apart by it",
            "drop one of them, such as after a join, or rename it",
        )


def _is_text_or_number(data_type: T.DataType) -> bool:
    return isinstance(data_type, (*_TEXTS, *_WHOLE_NUMBERS)) or (
        isinstance(data_type, T.DecimalType) and data_type.scale == 0
    )


def _remedy(name: str, data_type: T.DataType, setting: str) -> str:
    if setting == "delivery_count":
        return f"give whole numbers: withColumn({name!r}, F.col({name!r}).cast('bigint'))"
    if isinstance(data_type, T.TimestampType):
        return (
            f"its text depends on the session's time zone: withColumn({name!r}, F.unix_micros({name!r})) "
            "is the same in all"
        )
    if isinstance(data_type, T.DateType | T.TimestampNTZType):
        return f"write it as text of your own choice: withColumn({name!r}, F.col({name!r}).cast('string'))"
    if isinstance(data_type, T.StructType):
        return f"name the field that tells a row from others: withColumn({name!r}, F.col('{name}.id'))"
    return f"give text, bytes or whole numbers, written the same everywhere: withColumn({name!r}, ...)"


def identity(columns: Columns, schema: T.StructType) -> str:
    """Return the identity of a row, as text: its uuid, else its message id.

    It is null if it is empty or too long, or is not UTF-8, which neither Python nor a history can hold.
    """
    named = [name for name in (columns.uuid, columns.message_id) if name]
    parts = [f"nullif({_as_text(quoted(name), schema[name].dataType)}, '')" for name in named]
    identity = f"coalesce({', '.join(parts)})"
    if any(isinstance(schema[name].dataType, (*_TEXTS, T.BinaryType)) for name in named):
        identity = f"CASE WHEN length({identity}) <= {LONGEST} THEN {identity} END"
    if not any(isinstance(schema[name].dataType, _TEXTS) for name in named):
        return identity
    return valid_text(identity)


def _as_text(column: str, data_type: T.DataType) -> str:
    return f"lower(hex({column}))" if isinstance(data_type, T.BinaryType) else f"CAST({column} AS STRING)"


def valid_text(text: str) -> str:
    """Return an expression: the text of another expression, or null if its bytes are not UTF-8."""
    if hasattr(functions, "try_validate_utf8"):
        return f"try_validate_utf8({text})"
    # Before Spark 4.0: bytes that are not UTF-8 change when they are encoded again.
    return f"CASE WHEN CAST({text} AS BINARY) = encode({text}, 'UTF-8') THEN {text} END"


def delivery_count(columns: Columns) -> str:
    """Return the delivery count: -1 if it is missing, 0 if it is not a number."""
    if columns.delivery_count is None:
        return f"CAST({UNDEFINED_COUNT} AS BIGINT)"
    column = quoted(columns.delivery_count)
    absent = f"CAST(CASE WHEN {column} IS NULL THEN {UNDEFINED_COUNT} ELSE {NO_COUNT} END AS BIGINT)"
    return f"coalesce(try_cast({column} AS BIGINT), {absent})"


def hashable(schema: T.StructType) -> Sequence[str]:
    """Return the columns that can be hashed; maps, and values that hold maps, cannot."""
    return [quoted(field.name) for field in schema.fields if _is_hashable(field.dataType)]


def _is_hashable(data_type: T.DataType) -> bool:
    if isinstance(data_type, T.StructType):
        return all(_is_hashable(field.dataType) for field in data_type.fields)
    if isinstance(data_type, T.ArrayType):
        return _is_hashable(data_type.elementType)
    return not isinstance(data_type, _UNHASHABLE)
