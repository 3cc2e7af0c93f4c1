"""Executors and drivers of a standalone cluster with speculation are killed: each row is there once."""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.fixtures.scale import ONLY_IN_FULL, sized
from tests.fixtures.servers.spark import SPARK_PROCESSES
from tests.fixtures.servers.spark_cluster import SparkCluster, submit_options
from tests.fixtures.waiting import patience
from tests.integration.helpers.orders import Send, orders
from tests.integration.helpers.spark_driver import Told

pytestmark = [SPARK_PROCESSES, ONLY_IN_FULL, pytest.mark.crash, pytest.mark.timeout(600)]

ROWS, ROWS_OF_A_BATCH = 200, 50

#: The write of this row kills this process. The task that kills the driver goes on and commits.
DEATHS = {"order-7": "executor", "order-57": "driver"}

#: In a full run, the driver dies at these batches: before the sink, or between the sink and Spark's commit.
DRIVER_DEATHS = {"2": "before", "3": "after"} if sized(0, full=1) else {}


def test_each_row_is_there_once_whoever_is_killed(
    spark_cluster: SparkCluster, send: Send, redis_url: str, postgres_url: str, tmp_path: Path
) -> None:
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bookings (uuid TEXT)"))
    messages = orders(ROWS)
    send([*messages, *messages[::5]])
    told = Told(
        master=spark_cluster.url,
        options=submit_options(),
        redis=redis_url,
        history=postgres_url,
        folder=str(tmp_path),
        rows_of_a_batch=ROWS_OF_A_BATCH,
        deaths=DEATHS if not DRIVER_DEATHS else {**DEATHS, "order-9": "worker"},
        driver_deaths=DRIVER_DEATHS,
    )
    told.write(tmp_path / "told.json")

    codes = [drive(tmp_path) for _ in range(1 + len(DRIVER_DEATHS))]
    last = drive(tmp_path)

    with engine.connect() as connection:
        booked = Counter(connection.execute(text("SELECT uuid FROM bookings")).scalars())
    engine.dispose()
    assert codes == [-signal.SIGKILL] * len(codes)
    assert last == 0, (tmp_path / "driver.err").read_text()[-3000:]
    assert booked == {f"order-{number}": 1 for number in range(ROWS)}
    assert (tmp_path / "executor").exists()
    counts = json.loads((tmp_path / "driver.out").read_text())
    assert all(one["rows"] == one["new"] + one["duplicate"] for one in counts)


def drive(folder: Path) -> int:
    words = [sys.executable, "-m", "tests.integration.helpers.spark_driver", str(folder / "told.json")]
    with (folder / "driver.out").open("wb") as out, (folder / "driver.err").open("wb") as err:
        process = subprocess.Popen(words, stdout=out, stderr=err, start_new_session=True)
        try:
            return process.wait(patience(300.0))
        finally:
            process.kill()
            process.wait()
