"""Differences of Spark before 4.2."""

from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import signature
from typing import Any, cast

import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
from pyspark.sql.pandas import functions, types
from pyspark.sql.types import ByteType, StructType
from pyspark.version import __version__ as version

from history.errors import ConfigurationError

_arrow: Any = pa


def over_pandas(work: Callable[[Iterator[tuple[Any, ...]]], Iterator[Any]], name: str) -> Any:
    """Return a function of a column of text and some of numbers: before 4.1 they come as pandas objects."""
    # Not at the top: it takes half a second of each worker, and newer workers do not need it.
    pandas: Any = import_module("pandas")

    def batches(columns_of_batches: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        columns = (
            (_arrow.array(keys, _arrow.string(), from_pandas=True), *map(_arrow.array, numbers))
            for keys, *numbers in columns_of_batches
        )
        for column in work(columns):
            yield pandas.Series(column)

    batches.__annotations__ = {
        "columns_of_batches": Iterator[tuple[pandas.Series, ...]],
        "return": Iterator[pandas.Series],
    }
    batches.__name__ = name
    return cast("Any", functions).pandas_udf(batches, ByteType())


def arrow_schema(schema: StructType) -> Any:
    """Return a schema for Arrow, with instants in UTC: before 4.2 they are in UTC anyway."""
    to_arrow: Any = cast("Any", types).to_arrow_schema
    utc = {"timezone": "UTC"} if "timezone" in signature(to_arrow).parameters else {}
    return to_arrow(schema, **utc)


def too_old(feature: str, needed: str) -> ConfigurationError:
    """Return the error that this Spark is too old for a feature."""
    return ConfigurationError(
        feature, f"needs PySpark {needed} or newer, and this is {version}", f"pip install 'pyspark>={needed}'"
    )
