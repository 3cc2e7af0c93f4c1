"""Where the processor time of a row goes in ``foreach_batch``: Spark, its Python workers, the driver, Redis.

``python -m benchmarks.profile.spark`` runs the streams of the bench's Spark row, with rows of 20 columns, and
reads of each process, and of each kind of the JVM's threads, what it has used. ``foreach_batch`` and
``dropDuplicatesWithinWatermark`` take turns; each number is the median of the runs. Needs Linux's ``/proc``.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from statistics import median
from typing import Annotated, Any, cast

import redis
import typer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.costs import redis_seconds, seconds_in
from benchmarks.rows.spark_batches import COMPETITORS, CORES, session, throw_away, without_duplicates
from benchmarks.servers import private_redis, scratch
from triggers.spark import foreach_batch
from triggers.testing.redis_server import RedisServer

#: Processor time in seconds, by its user.
Usage = Mapping[str, float]

#: The first letters of the names of the JVM's threads in Linux, and their names in the report.
_THREADS = {
    "Executo": "JVM: tasks",
    "Writer": "JVM: to Python",
    "stdout": "JVM: to Python",
    "stream ": "JVM: plans",
    "Thread-": "JVM: plans",
    "C1 Comp": "JVM: compiler",
    "C2 Comp": "JVM: compiler",
    "GC Thre": "JVM: garbage",
    "G1 ": "JVM: garbage",
}


def main(
    *,
    rows: Annotated[int, typer.Option(help="Rows of a micro-batch.")] = 100_000,
    batches: Annotated[int, typer.Option(help="Micro-batches of a stream.")] = 4,
    runs: Annotated[int, typer.Option(help="Runs that count, after one that does not.")] = 5,
    partitions: Annotated[list[int] | None, typer.Option(help="Shuffle partitions; again for more.")] = None,
) -> None:
    """Measure, and print a table for each number of partitions."""
    with scratch() as folder, private_redis() as server:
        spark = session(folder)
        try:
            profile = _Profile(spark, server, folder, rows, batches)
            for many in partitions or (CORES, 8 * CORES):
                profile.show(many, runs)
        finally:
            spark.stop()


class _Profile:
    """Streams of one session, and their processor time."""

    def __init__(
        self, spark: SparkSession, server: RedisServer, folder: Path, rows: int, batches: int
    ) -> None:
        self.spark, self.server, self.folder = spark, server, folder
        self.rows, self.batches = rows, batches
        self.numbers = count()
        context: Any = spark.sparkContext
        self.jvm = int(context._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001  (no public way exists)

    def show(self, partitions: int, runs: int) -> None:
        """Run, and print the microseconds that each part spends on a row."""
        self.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        measured: dict[str, list[Usage]] = {name: [] for name in COMPETITORS}
        for number in range(runs + 1):
            for name in COMPETITORS if number % 2 else COMPETITORS[::-1]:
                usage = self._run(name)
                if number:
                    measured[name].append(usage)
        pairs = zip(*(measured[name] for name in COMPETITORS), strict=True)
        speeds = [other["time passed"] / ours["time passed"] for ours, other in pairs]
        table = Table(title=f"{partitions} shuffle partitions: {median(speeds):.2f} times as fast")
        table.add_column("us a row")
        for name in COMPETITORS:
            table.add_column(name, justify="right")
        for who in dict.fromkeys(who for usages in measured.values() for usage in usages for who in usage):
            medians = [median(usage.get(who, 0.0) for usage in measured[name]) for name in COMPETITORS]
            table.add_row(who, *(f"{seconds * 1e6 / (self.rows * self.batches):.2f}" for seconds in medians))
        Console().print(table)

    def _run(self, name: str) -> Usage:
        source = self.folder / f"stream-{next(self.numbers)}"
        for batch in range(self.batches):
            _write(self.spark, source / f"{batch}", batch, self.rows)
        before, begin = self._usage(), time.perf_counter()
        stream = (
            without_duplicates(_read(self.spark, source)) if name == "rocksdb" else _read(self.spark, source)
        )
        if name == "rocksdb":
            writer = stream.writeStream.foreachBatch(throw_away)
        else:
            ours = foreach_batch("queue", name="spark", uuid="uuid", history=self.server.url)
            writer = ours(throw_away).write_stream(stream)
        checkpoint = str(self.folder / f"checkpoint-{next(self.numbers)}")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        passed, after = time.perf_counter() - begin, self._usage()
        used = {who: after.get(who, 0.0) - before.get(who, 0.0) for who in after}
        return {"time passed": passed, "all processors": sum(_whole(used)), **used}

    def _usage(self) -> Usage:
        """Return the processor time so far, in seconds."""
        own = os.times()
        workers = [Path(f"/proc/{pid}/stat") for pid in _below(self.jvm)]
        with cast("Any", redis.Redis).from_url(self.server.url) as client:
            usage = {
                "JVM": seconds_in(Path(f"/proc/{self.jvm}/stat")),
                "Python workers": sum(seconds_in(worker, dead=True) for worker in workers),
                "driver": own.user + own.system,
                "Redis": redis_seconds(client),
            }
        for thread in Path(f"/proc/{self.jvm}/task").iterdir():
            with suppress(OSError):  # the thread has ended, but the JVM's number still includes its time
                group = _kind((thread / "comm").read_text().strip())
                usage[group] = usage.get(group, 0.0) + seconds_in(thread / "stat")
        return usage


def _whole(used: Usage) -> Iterator[float]:
    return (used[who] for who in ("JVM", "Python workers", "driver", "Redis"))


def _kind(thread: str) -> str:
    return next(
        (group for begin, group in _THREADS.items() if thread.startswith(begin)), "JVM: other threads"
    )


def _below(parent: int) -> Iterator[int]:
    """Yield the descendants of a process."""
    for child in Path(f"/proc/{parent}/task").glob("*/children"):
        for pid in child.read_text().split():
            yield int(pid)
            yield from _below(int(pid))


def _write(spark: SparkSession, folder: Path, batch: int, rows: int) -> None:
    """Write a micro-batch of 20 columns: 1 row in 10 repeats its neighbour, 1 in 10 one before."""
    stream = folder.parent.name
    number = f"""CASE WHEN id % 10 = 0 AND {batch} > 0 THEN id + 1 - {rows}
                     WHEN id % 10 = 9 THEN id - 1 ELSE id END + {batch * rows}"""
    texts = [f"substr(sha2(concat(id, '{n}'), 256), 1, {4 + 2 * n}) as text{n}" for n in range(9)]
    whole = [f"id * {n + 1} as whole{n}" for n in range(5)]
    fractions = [f"id / {n + 7} as fraction{n}" for n in range(4)]
    spark.range(rows).selectExpr(
        f"concat('{stream}-5f0c6b1e-9f5d-4a70-', lpad(cast({number} as string), 12, '0')) as uuid",
        "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id % 3600) as sent",
        *texts,
        *whole,
        *fractions,
    ).coalesce(1).write.parquet(str(folder))


def _read(spark: SparkSession, source: Path) -> DataFrame:
    schema = spark.read.parquet(str(source / "0")).schema
    reader = spark.readStream.schema(schema)
    return reader.option("maxFilesPerTrigger", 1).parquet(str(source / "*"))


if __name__ == "__main__":
    typer.run(main)
