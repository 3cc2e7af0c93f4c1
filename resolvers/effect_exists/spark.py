"""Does a row exist in a table or DataFrame of Spark? One join answers for all rows of a batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.types import BinaryType

from history.errors import ConfigurationError
from resolvers.bulk import UUID_COLUMN
from resolvers.effect_exists.probe import Location
from resolvers.resolution import Resolution

#: The place of effects: the name of a table or view, or a function that reads them at each question.
Effects = str | Callable[[], DataFrame]


@dataclass(frozen=True, slots=True)
class SparkRows:
    """A resolver of DataFrames that looks for the identity of each row in a column."""

    effects: Effects
    column: str
    location: Location

    def __call__(self, rows: DataFrame, trigger_name: str) -> DataFrame:
        """Return for each row whether its effect exists."""
        _ = trigger_name
        table = self._found(rows)
        effects = table.select(_identity(table, self.column).alias("__doubtless_effect"))
        joined = rows.select(UUID_COLUMN).join(
            effects.distinct(), F.col(UUID_COLUMN) == F.col("__doubtless_effect"), "left"
        )
        there, absent = self.location.has_it(), self.location.lacks_it()
        exists = F.col("__doubtless_effect").isNotNull()
        return joined.select(
            UUID_COLUMN,
            F.when(exists, str(there.resolution)).otherwise(str(absent.resolution)).alias("resolution"),
            F.when(exists, there.reason).otherwise(absent.reason).alias("reason"),
        )

    def _found(self, rows: DataFrame) -> DataFrame:
        effects: Any = self.effects
        table = rows.sparkSession.table(effects) if isinstance(effects, str) else effects()
        if self.column not in table.columns:
            raise ConfigurationError(
                "spark_rows_exist",
                f"{self.location.name} has no column {self.column!r}; it has {', '.join(table.columns)}",
                "name the column that holds the identity",
            )
        return table


def _identity(table: DataFrame, name: str) -> Column:
    """Return the identities in a column, by the rule for rows: bytes are lower-case hexadecimal."""
    column = F.col(f"`{name.replace('`', '``')}`")
    is_binary = isinstance(table.schema[name].dataType, BinaryType)
    return F.lower(F.hex(column)) if is_binary else column.cast("string")


def spark_rows(effects: Effects, column: str, *, absent: Resolution) -> SparkRows:
    """Return the resolver; see :func:`resolvers.effect_exists.spark_rows_exist`."""
    name = f"table {effects}" if isinstance(effects, str) else getattr(effects, "__name__", "a DataFrame")
    return SparkRows(effects, column, Location(f"{name}, column {column}", frozenset({"uuid"}), absent))
