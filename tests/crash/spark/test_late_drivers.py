"""Drivers that hang in the function, and wake up when another driver has completed their batch."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.spark.spark_sleeper import RECIPES, newest_folders
from tests.fixtures.servers.spark import SPARK_PROCESSES, need_spark
from tests.fixtures.waiting import eventually, patience

pytestmark = [SPARK_PROCESSES, pytest.mark.prove, pytest.mark.crash, pytest.mark.timeout(400)]

ROWS = 20_000


def _start(folder: Path, history: str, recipe: str, how: str) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-m", "tests.crash.spark.spark_sleeper", str(folder), history, recipe, how]
    return subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _kill(driver: subprocess.Popen[bytes]) -> None:
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("dies", [True, False], ids=["is killed in its write", "ends its write"])
def test_a_driver_that_wakes_up_late_changes_nothing(
    spark: SparkSession, tmp_path: Path, redis_url: str, recipe: str, *, dies: bool
) -> None:
    need_spark()
    spark.range(ROWS).selectExpr("concat('u', id) AS uuid").coalesce(1).write.parquet(str(tmp_path / "in"))
    late = _start(tmp_path, redis_url, recipe, "stop")
    try:
        eventually((tmp_path / "stopped").exists, 180.0)
        heir = _start(tmp_path, redis_url, recipe, "go")
        try:
            assert heir.wait(patience(180.0)) == 0
        finally:
            _kill(heir)
        assert _holds(spark, tmp_path, redis_url) == (ROWS, ROWS)

        os.killpg(late.pid, signal.SIGCONT)
        if dies:
            eventually(lambda: late.poll() is not None or _has_begun(tmp_path), 60.0)
        else:
            assert late.wait(patience(180.0)) != 0  # the ledger refuses its completion
    finally:
        _kill(late)
    again = _start(tmp_path, redis_url, recipe, "go")
    try:
        assert again.wait(patience(180.0)) == 0
    finally:
        _kill(again)

    assert _holds(spark, tmp_path, redis_url) == (ROWS, ROWS)


def _has_begun(folder: Path) -> bool:
    return any((folder / "orders").glob("lineage=*/batch_id=*/attempt=1"))


def _holds(spark: SparkSession, folder: Path, history: str) -> tuple[int, int]:
    """Return how many rows a reader sees, and how many of them differ."""
    found = Counter(row.uuid for row in spark.read.parquet(*newest_folders(folder, history)).collect())
    return found.total(), len(found)
