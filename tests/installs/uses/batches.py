"""Micro-batches of the installed Spark: ``batches.py HISTORY``; print the results of their rows, as JSON.

Each way to keep rows has a separate query: a batch with copies, a batch with a failing function, the same
batch again, and bytes that are not text.
"""

import json
import os
import sys
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from triggers.spark import BatchReport, foreach_batch

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def main(history: str) -> dict[str, Any]:
    """Return, by way to keep rows, what the function was given, and the counts of each batch."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master("local[2]").appName("doubtless")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        said = {storage: batches(spark, history, storage) for storage in ("memory_and_disk", "none")}
        return {"spark": spark.version, **said}
    finally:
        spark.stop()


def batches(spark: SparkSession, history: str, storage: str) -> dict[str, Any]:
    """Process three batches."""
    given: list[str] = []
    reports: list[BatchReport] = []
    fails = [False]
    settings: dict[str, Any] = {"storage": storage, "on_batch": reports.append}

    @foreach_batch("orders", name=storage, uuid="uuid", query="q", history=history, **settings)
    def load(new: DataFrame, _: int) -> None:
        given.extend(str(row[0]) for row in new.select("uuid").collect())
        if fails[0]:
            raise RuntimeError("as it is told")

    load(rows(spark, "('a'), ('b'), ('a'), (CAST(X'ff' AS STRING)), (NULL)"), 0)
    fails[0] = True
    try:
        load(rows(spark, "('b'), ('c')"), 1)
    except RuntimeError:
        fails[0] = False
    load(rows(spark, "('b'), ('c'), ('d')"), 1)
    counts = [[one.new, one.duplicate, one.in_doubt, one.rejected] for one in reports]
    return {"given": given, "counts": counts}


def rows(spark: SparkSession, values: str) -> DataFrame:
    """Return rows of one column."""
    return spark.sql(f"SELECT uuid FROM VALUES {values} AS t (uuid)")  # noqa: S608  (our own words)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(cast("Any", main(*sys.argv[1:]))))
