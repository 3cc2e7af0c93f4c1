"""What a row says of its message, as Spark SQL.

Text, not ``Column`` objects: of those each part is a call to the JVM, and a plan that is made for every
micro-batch would be a hundred of them.
"""

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from history.message import UNDEFINED_COUNT
from triggers.spark.settings import Columns

#: Stands for a delivery count that is none.
NO_COUNT = 0


def quoted(name: str) -> str:
    """Return the name of a column as SQL."""
    return f"`{name.replace('`', '``')}`"


def identity(columns: Columns) -> str:
    """Return the identity of a row, as text: its uuid, else its message id; null for an empty one."""
    named = [quoted(name) for name in (columns.uuid, columns.message_id) if name]
    parts = [f"nullif(CAST({name} AS STRING), '')" for name in named]
    return f"coalesce({', '.join(parts)})"


def delivery_count(columns: Columns) -> str:
    """Return the delivery count: -1 where there is none, 0 where it is no number."""
    if columns.delivery_count is None:
        return f"CAST({UNDEFINED_COUNT} AS BIGINT)"
    column = quoted(columns.delivery_count)
    absent = f"CAST(CASE WHEN {column} IS NULL THEN {UNDEFINED_COUNT} ELSE {NO_COUNT} END AS BIGINT)"
    return f"coalesce(try_cast({column} AS BIGINT), {absent})"


def hashable(schema: StructType) -> Sequence[str]:
    """Return the columns that can be hashed; a map cannot, nor what holds one."""
    return [quoted(one.name) for one in schema.fields if _is_hashable(one.dataType)]


def _is_hashable(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_hashable(one.dataType) for one in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_hashable(kind.elementType)
    return not isinstance(kind, MapType | VariantType)
