"""A driver with executors of its own, one of which is killed in the middle of the claims.

Called as ``spark_cluster MASTER FOLDER HISTORY ROWS``; writes ``FOLDER/told.json``.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from history import open_history
from history.bridge import drive
from tests.fixtures.servers.spark import SPARK_OPTIONS, need_spark
from tests.fixtures.servers.spark_cluster import submit_options
from tests.fixtures.waiting import PATIENCE
from triggers.spark import foreach_batch


def session(master: str, folder: Path) -> SparkSession:
    """Start a driver on the cluster."""
    need_spark()
    builder = SparkSession.Builder().master(master).appName("doubtless")
    options = {
        **SPARK_OPTIONS,
        **submit_options(),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.sql.shuffle.partitions": "6",
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
    """Kill an executor once so many rows are claimed."""
    store = open_history(history)
    while drive(store.stats("load")).started < enough:
        time.sleep(0.005)
    victim, *_ = executors(application)
    os.kill(victim, signal.SIGKILL)
    killed.append(victim)
    drive(store.close())


def main(master: str, folder: Path, history: str, rows: int) -> None:
    """Run one batch of ``rows`` rows, a fifth of them duplicates, and print what became of them."""
    spark = session(master, folder)
    seen: Counter[int] = Counter()

    def load(new: DataFrame, _: int) -> None:
        seen.update(row.uuid for row in new.select("uuid").collect())

    made = foreach_batch("orders", name="load", uuid="uuid", history=history, query="q")(load)
    batch = spark.range(0, rows, 1, 4).selectExpr(f"id % {rows * 4 // 5} as uuid", "'body' as body")
    killed: list[int] = []
    killer = threading.Thread(
        target=kill_one, args=(spark.sparkContext.applicationId, history, rows // 5, killed), daemon=True
    )
    killer.start()
    made(batch, 0)
    killer.join(PATIENCE)
    most = max(seen.values())
    told = {"distinct": len(seen), "most": most, "killed": killed, **made.reports[-1].counts}
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
