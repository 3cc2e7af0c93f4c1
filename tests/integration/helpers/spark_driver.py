"""A driver that dies at chosen points: ``spark_driver FILE``, a JSON of Told.

It reads the Redis stream ``orders`` and books each order through the atomic sink, in batches of some rows.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Connection

from tests.fixtures.servers.spark import SPARK_OPTIONS
from triggers.spark.atomic_sink import atomic_sink, into_table
from triggers.spark.sources import RedisStreamSource


@dataclass(frozen=True, kw_only=True)
class Told:
    """The instructions; each death happens once, and a file in ``folder`` records it.

    ``deaths`` names what dies when the row of a uuid is written; ``driver_deaths`` names the batches at which
    the driver dies, "before" the sink or "after" it.
    """

    master: str
    options: Mapping[str, str]
    redis: str
    history: str
    folder: str
    rows_of_a_batch: int
    deaths: Mapping[str, str] = field(default_factory=dict[str, str])
    driver_deaths: Mapping[str, str] = field(default_factory=dict[str, str])

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))


def first_time(folder: str, what: str) -> bool:
    try:
        (Path(folder) / what).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True)
class DeadlyWriter:
    """Writes rows, and then kills a chosen process, before the transaction commits."""

    told: Told
    driver: int

    def __call__(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        into_table("bookings", columns=["uuid"])(connection, rows)
        for row in rows:
            death = self.told.deaths.get(row["uuid"])
            if death is not None and first_time(self.told.folder, death):
                self.happen(death)

    def happen(self, death: str) -> None:
        match death:
            case "worker":
                os.kill(os.getpid(), signal.SIGKILL)
            case "executor":
                # A daemon has forked the Python worker; the daemon's parent is the executor.
                os.kill(parent_of(os.getppid()), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            case "driver":
                os.killpg(self.driver, signal.SIGKILL)
            case _:
                raise ValueError(death)


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def main(file: str) -> None:
    told = Told(**json.loads(Path(file).read_text()))
    builder = SparkSession.Builder().master(told.master).appName("doubtless-test")
    for name, value in {**SPARK_OPTIONS, **told.options}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(RedisStreamSource)
    sink = atomic_sink(
        "orders",
        name="book",
        uuid="uuid",
        history=told.history,
        write=DeadlyWriter(told, os.getpid()),
        rows_per_transaction=20,
    )

    def book(batch: DataFrame, batch_id: int) -> None:
        place = told.driver_deaths.get(str(batch_id), "")
        for now in ("before", "after"):
            if now == place and first_time(told.folder, f"{place}-{batch_id}"):
                os.killpg(os.getpid(), signal.SIGKILL)
            if now == "before":
                sink(batch, batch_id)

    stream = spark.readStream.format("redis_streams").options(url=told.redis, destination="orders")
    stream = stream.option("maxRowsPerBatch", told.rows_of_a_batch).option("maxRowsPerPartition", 25)
    query = stream.load().writeStream.foreachBatch(book).trigger(availableNow=True)
    query.option("checkpointLocation", str(Path(told.folder) / "checkpoint")).start().awaitTermination()
    sys.stdout.write(json.dumps([report.counts for report in sink.reports]))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
