"""A driver with its own executors; one executor is killed in the middle of the claims.

Called as ``spark_cluster MASTER FOLDER HISTORY ROWS (together | apart)``; writes ``FOLDER/told.json``. With
"apart", rows stay in their partitions, and each partition claims as its own owner. Then one task fails half
way through its claims, and another task is so slow that it gets a speculative twin.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from history import open_history
from history.bridge import drive
from tests.fixtures.histories import with_store
from tests.fixtures.servers.spark import SPARK_OPTIONS, need_spark
from tests.fixtures.servers.spark_cluster import submit_options
from tests.fixtures.waiting import PATIENCE
from tests.integration.helpers.batches import fixed
from triggers.spark import foreach_batch

#: The row at which a task fails, and for how many seconds another one sleeps at every 1,000th row.
FAILS_AT, SLOW = 1_500, 1.0


def session(master: str, folder: Path) -> SparkSession:
    """Start a driver on the cluster."""
    need_spark()
    builder = SparkSession.Builder().master(master).appName("doubtless")
    options = {
        **SPARK_OPTIONS,
        **submit_options(),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.sql.shuffle.partitions": "6",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "500",  # so that a task that fails has claimed some
        "spark.local.dir": str(folder / "scratch"),
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("FATAL")
    return made


def executors(application: str) -> list[int]:
    """Return the process ids of an application's executors."""
    found = subprocess.run(["ps", "-ewwo", "pid,args"], capture_output=True, text=True, check=True)
    lines = [line for line in found.stdout.splitlines() if "ExecutorBackend" in line and application in line]
    return [int(line.split(None, 1)[0]) for line in lines if "java" in line.split(None, 2)[1]]


def kill_one(application: str, history: str, enough: int, killed: list[int]) -> None:
    """Kill an executor as soon as so many rows are claimed."""
    store = open_history(history)
    while drive(store.stats("load")).started < enough:
        time.sleep(0.005)
    victim, *_ = executors(application)
    os.kill(victim, signal.SIGKILL)
    killed.append(victim)
    drive(store.close())


def rows_of(numbers: Iterable[int], distinct: int) -> Iterator[tuple[str, str]]:
    """Yield the rows of a partition; the first attempt of one fails, and that of another one is slow."""
    task = TaskContext.get()
    assert task is not None
    index, is_first = task.partitionId(), task.attemptNumber() == 0
    for place, number in enumerate(numbers):
        if is_first and index == 1 and place == FAILS_AT:
            raise RuntimeError("the task fails half way")
        if is_first and index == 2 and place % 1000 == FAILS_AT % 1000:
            time.sleep(SLOW)
        yield str(number % distinct), "body"


def owners_of(history: str, uuids: list[str]) -> list[str]:
    """Return which parts of a run own rows, after a check that all rows are completed."""
    entries = with_store(history, lambda store: store.lookup("load", uuids))
    assert all(entry is not None and entry.outcome == "ok" for entry in entries)
    return sorted({(entry.owner or "").partition("#")[2] for entry in entries if entry is not None})


def main(master: str, folder: Path, history: str, rows: int, how: str) -> None:
    """Run one batch of ``rows`` rows, a fifth of them duplicates, and print their results."""
    spark = session(master, folder)
    distinct = rows * 4 // 5
    seen: Counter[str | int] = Counter()

    def load(new: DataFrame, _: int) -> None:
        seen.update(row.uuid for row in new.select("uuid").collect())

    partitions = 4 if how == "apart" else None
    made = foreach_batch(
        "orders", name="load", uuid="uuid", history=history, query="q", partitions=partitions
    )(load)
    if how == "apart":
        spread = spark.sparkContext.range(0, rows, 1, 4).mapPartitions(partial(rows_of, distinct=distinct))
        batch = fixed(spark, spread, "uuid string, body string")
    else:
        batch = spark.range(0, rows, 1, 4).selectExpr(f"id % {distinct} as uuid", "'body' as body")
    killed: list[int] = []
    killer = threading.Thread(
        target=kill_one, args=(spark.sparkContext.applicationId, history, rows // 5, killed), daemon=True
    )
    killer.start()
    made(batch, 0)
    killer.join(PATIENCE)
    most = max(seen.values())
    owners = owners_of(history, [str(number) for number in range(0, distinct, 7)])
    told = {
        "distinct": len(seen),
        "most": most,
        "killed": killed,
        "owners": owners,
        **made.reports[-1].counts,
    }
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5])
