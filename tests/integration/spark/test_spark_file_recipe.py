"""The recipe for files: a folder for each run of a batch, and ``on_replay="execute"``."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.fixtures.servers.spark import SPARK_EDGES
from tests.integration.helpers.orders import frame
from triggers import TransientError
from triggers.spark import BatchInfo, foreach_batch

pytestmark = [SPARK_EDGES, pytest.mark.prove]


def write(new: DataFrame, batch: BatchInfo, folder: Path) -> None:
    of_batch = folder / f"lineage={batch.lineage}" / f"batch_id={batch.batch_id}"
    new.write.mode("overwrite").parquet(str(of_batch / f"attempt={batch.attempt}"))


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """Read the folder with the highest attempt of each batch. No test has more than nine attempts."""
    newest = {run.parent: run for run in sorted(folder.glob("lineage=*/batch_id=*/attempt=*"))}
    return spark.read.option("basePath", str(folder)).parquet(*map(str, newest.values()))


def test_a_batch_that_is_run_again_overwrites_what_it_wrote(
    spark: SparkSession, redis_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "orders"
    deaths = [KeyboardInterrupt, KeyboardInterrupt]

    @foreach_batch("orders", name="load", uuid="uuid", history=redis_url, query="q", on_replay="execute")
    def load(new: DataFrame, batch: BatchInfo) -> None:
        if len(deaths) == 1:  # only some of its files were written
            write(new.limit(3), batch, folder)
            raise deaths.pop()
        write(new, batch, folder)
        if deaths:
            raise deaths.pop()

    first, second = batch(spark, range(20)), batch(spark, range(10, 30))
    for rows, batch_id, dies in ((first, 0, True), (first, 0, True), (first, 0, False), (second, 1, False)):
        if dies:
            with pytest.raises(KeyboardInterrupt):
                load(rows, batch_id)
        else:
            load(rows, batch_id)

    written = read(spark, folder).select("uuid").collect()
    assert Counter(row.uuid for row in written) == {f"u-{number}": 1 for number in range(30)}
    counts = [(one.batch_id, one.attempt, one.new, one.duplicate) for one in load.reports]
    assert counts == [(0, 3, 20, 5), (1, 1, 10, 15)]


def test_what_a_run_that_was_cut_off_has_written_goes_when_another_query_has_processed_it(
    spark: SparkSession, redis_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "orders"
    failures = [TransientError("the disk is full")]

    @foreach_batch("orders", name="load", uuid="uuid", history=redis_url, query="q", on_replay="execute")
    def load(new: DataFrame, batch: BatchInfo) -> None:
        write(new, batch, folder)
        if failures:
            raise failures.pop()

    @foreach_batch("orders", name="load", uuid="uuid", history=redis_url, query="r", on_replay="execute")
    def other(new: DataFrame, batch: BatchInfo) -> None:
        write(new, batch, folder)

    with pytest.raises(TransientError):
        load(batch(spark, range(10)), 7)
    other(batch(spark, range(10)), 1)
    load(batch(spark, range(10)), 7)

    written = read(spark, folder).select("uuid", "batch_id").collect()
    assert Counter(row.uuid for row in written) == {f"u-{number}": 1 for number in range(10)}
    assert {row.batch_id for row in written} == {1}


def batch(spark: SparkSession, numbers: range) -> DataFrame:
    """Return rows with these uuids, the first five of them twice."""
    uuids = [f"u-{number}" for number in (*numbers, *numbers[:5])]
    return frame(spark, [(uuid,) for uuid in uuids], "uuid string")
