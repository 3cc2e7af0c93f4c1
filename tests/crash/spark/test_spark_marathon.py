"""Drivers that are killed at random, one after the other, until a stream is through: each row is there once.

With ``DOUBTLESS_FULL=1`` there are twenty batches and twenty deaths.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]
import pytest
from sqlalchemy import create_engine, text

from history import EntryOutcome, ParkedKind, open_history
from history.bridge import drive
from tests.crash.spark.spark_marathon import fill, keys_of, started_by_others
from tests.fixtures.scale import sized
from tests.fixtures.servers.spark import SPARK_PROCESSES, need_spark
from tests.fixtures.waiting import patience

pytestmark = [
    SPARK_PROCESSES,
    pytest.mark.prove,
    pytest.mark.crash,
    pytest.mark.timeout(sized(400, full=3600)),
]

BATCHES, DEATHS = sized(4, full=20), sized(2, full=20)


def _run(*words: str) -> int:
    """Run a driver until it ends or is killed; return its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.spark.spark_marathon", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(patience(300.0))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_whenever_drivers_die_each_row_is_in_each_sink_once(
    tmp_path: Path, redis_url: str, postgres_url: str
) -> None:
    need_spark()
    fill(tmp_path, BATCHES)
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bookings (uuid TEXT, body TEXT)"))
    started = started_by_others(BATCHES)
    for url, name, uuids in (
        (redis_url, "folder", [key.hex() for key in started]),
        (postgres_url, "book", [key.decode() for key in started]),
    ):
        store = open_history(url)
        drive(store.claim(name, uuids, "a worker that died"))
        drive(store.close())

    codes = [_run(str(tmp_path), redis_url, postgres_url, f"{seed}") for seed in range(DEATHS)]
    codes.append(_run(str(tmp_path), redis_url, postgres_url, "-"))

    assert codes[-1] == 0
    assert set(codes[:-1]) <= {-signal.SIGKILL, 0}, "a driver ended for another reason than its own kill"
    assert -signal.SIGKILL in codes
    keys = [key for batch in range(BATCHES) for key in keys_of(batch)]
    texts = [key.decode() for key in keys if not key.startswith(b"\xff")]
    assert _in_folders(tmp_path / "out") == Counter(keys)
    with engine.connect() as connection:
        assert Counter(connection.execute(text("SELECT uuid FROM bookings")).scalars()) == Counter(texts)
    engine.dispose()
    _assert_all_completed(redis_url, "folder", [key.hex() for key in keys], unreadable=0)
    _assert_all_completed(postgres_url, "book", texts, unreadable=BATCHES)


def _in_folders(folder: Path) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for file in sorted(folder.glob("batch_id=*/part-*.parquet")):
        table: Any = cast("Any", pq).read_table(str(file), partitioning=None)
        found.update(table.column("uuid").to_pylist())
    return found


def _assert_all_completed(url: str, name: str, uuids: list[str], unreadable: int) -> None:
    store = open_history(url)
    entries = drive(store.lookup(name, uuids))
    parked = drive(store.parking.list(trigger=name))
    drive(store.close())
    assert {None if entry is None else entry.outcome for entry in entries} == {EntryOutcome.OK}
    assert Counter(one.kind for one in parked) == Counter({ParkedKind.UNREADABLE: unreadable})
