"""Drivers and executors of Spark that are killed; effects are counted.

With ``DOUBTLESS_FULL=1`` the executors claim 200,000 rows while one of them is killed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from history import open_history
from history.bridge import drive
from tests.crash.spark.spark_victim import LANES, UUIDS
from tests.fixtures.scale import sized
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.spark import SPARK_PROCESSES, need_spark
from tests.fixtures.servers.spark_cluster import SparkCluster
from tests.fixtures.waiting import patience
from tests.integration.helpers.file_streams import FileStream, orders

pytestmark = [SPARK_PROCESSES, pytest.mark.prove, pytest.mark.crash, pytest.mark.timeout(400)]

#: How often each of the first and the second half of the rows takes effect, by lane; the rest is parked.
EFFECTS = {
    "before-in_doubt": (1, 1),
    "before-execute": (1, 1),
    "inside-in_doubt": (1, 0),
    "inside-execute": (2, 1),
    "after-in_doubt": (1, 1),
    "after-execute": (2, 2),
    "completed-in_doubt": (1, 1),
    "completed-execute": (1, 1),
    "before-committed": (1, 1),
    "inside-committed": (1, 1),
    "after-committed": (1, 1),
    "completed-committed": (1, 1),
}

#: The lanes that park rows for a person to decide.
PARKED = {"inside-in_doubt", "after-in_doubt"}


def _start(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        assert process.wait(patience(300.0)) == 0
    finally:
        if process.poll() is None:
            _kill(process)


def test_a_driver_that_dies_leaves_what_on_replay_or_the_sink_says(tmp_path: Path, redis_url: str) -> None:
    need_spark()
    FileStream(None, tmp_path).add(orders(UUIDS))  # type: ignore[arg-type]
    victim = _start("tests.crash.spark.spark_victim", str(tmp_path), redis_url, "stop")
    deadline = time.monotonic() + patience(180.0)
    try:
        while not all((tmp_path / f"stopped-{lane.name}").exists() for lane in LANES):
            assert victim.poll() is None, "the driver ended too soon"
            assert time.monotonic() < deadline, sorted(one.name for one in tmp_path.iterdir())
            time.sleep(0.1)
    finally:
        _kill(victim)

    _end(_start("tests.crash.spark.spark_victim", str(tmp_path), redis_url, "go"))

    store = open_history(redis_url)
    parked = {lane.name: {one.uuid for one in drive(store.parking.list(trigger=lane.name))} for lane in LANES}
    drive(store.close())
    with connected(redis_url) as client:
        effects = {
            lane.name: Counter(one.decode() for one in client.lrange(f"effects:{lane.name}", 0, -1))
            for lane in LANES
        }
    half = len(UUIDS) // 2
    found = {
        name: (counts[UUIDS[0]], counts[UUIDS[-1]])
        for name, counts in effects.items()
        if len({counts[one] for one in UUIDS[:half]}) == len({counts[one] for one in UUIDS[half:]}) == 1
    }
    assert found == EFFECTS
    assert parked == {lane.name: set(UUIDS) if lane.name in PARKED else set() for lane in LANES}
    reports = json.loads((tmp_path / "reports.json").read_text())
    assert {sum(one["rows"] for one in told) for told in reports.values()} == {len(UUIDS)}


@pytest.mark.parametrize(("how", "owners"), [("together", [""]), ("apart", ["0", "1", "2", "3"])])
def test_an_executor_that_dies_while_it_claims_loses_no_row_and_doubles_none(
    spark_cluster: SparkCluster, tmp_path: Path, redis_url: str, how: str, owners: list[str]
) -> None:
    rows = sized(20_000, full=200_000)

    process = _start(
        "tests.crash.spark.spark_cluster", spark_cluster.url, str(tmp_path), redis_url, str(rows), how
    )
    _end(process)

    found = json.loads((tmp_path / "told.json").read_text())
    assert (len(found["killed"]), found["owners"]) == (1, owners)
    assert (found["distinct"], found["most"]) == (rows * 4 // 5, 1)
    assert (found["rows"], found["new"], found["duplicate"]) == (rows, rows * 4 // 5, rows // 5)
