"""Orders in a Redis stream, and rows in a DataFrame, for the tests of their readers."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from history.message import Message

Send = Callable[[Sequence[Message]], None]


def orders(count: int, *, first: int = 0) -> list[Message]:
    """Make orders with the uuids order-0, order-1 ..."""
    return [Message(body={"id": number}, uuid=f"order-{number}") for number in range(first, first + count)]


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    made: DataFrame = cast("Any", spark).createDataFrame(list(rows), schema)
    return made
