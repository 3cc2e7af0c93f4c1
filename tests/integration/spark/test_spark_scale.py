"""Many rows with a fifth of duplicates: within a batch, across batches, restarts and queries.

With ``DOUBTLESS_FULL=1`` there are a million.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.fixtures.scale import sized
from tests.fixtures.servers.spark import SPARK
from tests.integration.helpers.file_streams import FileStream, orders
from triggers.spark import ForeachBatch, foreach_batch

#: The micro-batches of each of the two queries. In a normal run a batch costs more than its rows.
BATCHES = sized(2, full=4)

pytestmark = [SPARK, pytest.mark.prove, pytest.mark.timeout(1800)]


def test_a_million_rows_take_effect_once(spark: SparkSession, tmp_path: Path, redis_url: str) -> None:
    rows = sized(4000, full=1_000_000)
    size = rows // (2 * BATCHES)
    first, second = (FileStream(spark, tmp_path / name) for name in ("first", "second"))
    batches = _batches(size)
    effects = [str(tmp_path / f"effects-{number}") for number in range(3)]
    loads = [_load(redis_url, one) for one in effects]

    for _ in range(BATCHES // 2):
        first.add(orders(next(batches)))
    first.run(loads[0], name="first")
    for _ in range(BATCHES // 2):
        first.add(orders(next(batches)))
    for _ in range(BATCHES):
        second.add(orders(next(batches)))
    queries = [first.start(loads[1], name="first"), second.start(loads[2], name="second")]
    for query in queries:
        query.awaitTermination()

    reports = [report for load in loads for report in load.reports]
    found = spark.read.parquet(*effects)
    distinct = rows - rows // 5 + size // 10  # nothing came before the first batch
    assert (found.count(), found.select("uuid").distinct().count()) == (distinct, distinct)
    assert sum(one.rows for one in reports) == rows
    assert sum(one.new for one in reports) == distinct
    assert sum(one.duplicate + one.in_doubt for one in reports) == rows - distinct
    assert all(one.rows == one.new + one.duplicate + one.in_doubt for one in reports)
    assert len(reports) == 2 * BATCHES


def _batches(size: int) -> Iterator[list[str]]:
    """Yield the uuids of batches. A tenth repeats rows of the same batch, and a tenth earlier rows."""
    every: list[str] = []
    number = 0
    while True:
        fresh = size * 8 // 10 if every else size * 9 // 10
        batch = [f"5f0c6b1e-9f5d-4a70-{number + place:012}" for place in range(fresh)]
        number += fresh
        old = every[:: max(1, len(every) // (size // 10))][: size // 10] if every else []
        every += batch
        yield [*batch, *old, *batch[: size // 10]]


def _load(url: str, effects: str) -> ForeachBatch:
    @foreach_batch("orders", name="load", uuid="uuid", history=url)
    def load(new: DataFrame, _: int) -> None:
        new.select("uuid").write.mode("append").parquet(effects)

    return load
