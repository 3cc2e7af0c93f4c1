"""``foreach_batch`` on a Redis history beside ``dropDuplicatesWithinWatermark`` on RocksDB state.

Spark keeps a state for each shuffle partition and commits each of them with every micro-batch, so how many
there are decides how fast it is, and they stay as many as they were when the query first ran. It is measured
with as many as there are cores, the fewest that make sense, with eight for each core, and with Spark's 200.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.bench import Bench
from benchmarks.measuring import WARM_UP, Pass, Rounds
from benchmarks.result import SPEED, Budget, Result
from triggers.spark import foreach_batch

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: Micro-batches of one stream; a fifth of the rows of each are duplicates, half of them of the batch before.
_BATCHES = 4

#: The threads of the session, which are its cores.
_CORES = 2

#: By shuffle partitions, the rounds that are measured and those before them: each starts two queries, which
#: takes long, and after the first few the JVM is warm.
_ROUNDS = {_CORES: (3, WARM_UP), 8 * _CORES: (2, 0), 200: (1, 0)}

_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
}


def measure(bench: Bench) -> Iterable[Result]:
    """Measure whole streams, from the source to a sink that throws away; nothing without Java."""
    if shutil.which("java") is None:
        bench.progress.console.print("spark: Java is missing: apt-get install openjdk-17-jre-headless")
        return
    rows = bench.effort.messages * 1250  # 250,000 in a run of usual length
    with TemporaryDirectory(prefix="doubtless-bench-spark-", ignore_cleanup_errors=True) as folder:
        spark = _session(Path(folder))
        try:
            for partitions, (count, warm_up) in _ROUNDS.items():
                spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
                rounds = Rounds(count=count, messages=rows, progress=bench.progress, warm_up=warm_up)
                yield _compare(bench, spark, Path(folder), rounds, partitions)
        finally:
            spark.stop()


def _compare(bench: Bench, spark: SparkSession, folder: Path, rounds: Rounds, partitions: int) -> Result:
    size = rounds.messages // _BATCHES
    what = f"foreach_batch, {_BATCHES} micro-batches of {size:,} rows, {partitions} shuffle partitions"

    def make(count: int) -> Sequence[Path]:
        source = folder / f"stream-{next(bench.numbers)}"
        for batch in range(_BATCHES):
            _write(spark, source / f"{batch}", batch, count // _BATCHES)
        return [source]

    def ours(material: Sequence[Path]) -> None:
        made = foreach_batch("queue", name="spark", uuid="uuid", history=bench.server.url)(_throw_away)
        _run(made.write_stream(_read(spark, material[0])), folder, next(bench.numbers))

    def rocksdb(material: Sequence[Path]) -> None:
        stream = _read(spark, material[0]).withWatermark("sent", "7 days")
        writer = stream.dropDuplicatesWithinWatermark(["uuid"]).writeStream.foreachBatch(_throw_away)
        _run(writer, folder, next(bench.numbers))

    passes: dict[str, Pass[Path]] = {"doubtless": ours, "rocksdb": rocksdb}
    times = rounds.run(what, make, passes)
    return Result(
        what=what,
        beside="dropDuplicatesWithinWatermark, RocksDB",
        unit="rows/s",
        measured=1 / times.of("doubtless"),
        floor=1 / times.of("rocksdb"),
        ratio=times.ratio("rocksdb", "doubtless"),
        budget=Budget(1.2, SPEED, at_least=True),
    )


def _session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(f"local[{_CORES}]").appName("doubtless-bench")
    for name, value in {**_SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _write(spark: SparkSession, folder: Path, batch: int, rows: int) -> None:
    """Write one micro-batch: 1 in 10 rows repeats another of its own, 1 in 10 one of the batch before."""
    stream = folder.parent.name
    place = f"""CASE WHEN id % 10 = 0 AND {batch} > 0 THEN id + 1 - {rows}
                     WHEN id % 10 = 9 THEN id - 1 ELSE id END + {batch * rows}"""
    spark.range(rows).selectExpr(
        f"concat('{stream}-5f0c6b1e-9f5d-4a70-', lpad(cast({place} as string), 12, '0')) as uuid",
        "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id % 3600) as sent",
        "repeat('x', 200) as body",
    ).coalesce(1).write.parquet(str(folder))


def _read(spark: SparkSession, source: Path) -> DataFrame:
    reader = spark.readStream.schema("uuid string, sent timestamp, body string")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(source / "*"))


def _throw_away(new: DataFrame, _: int) -> None:
    new.write.format("noop").mode("overwrite").save()


def _run(writer: DataStreamWriter, folder: Path, number: int) -> None:
    ready = writer.trigger(availableNow=True).option("checkpointLocation", str(folder / f"c{number}"))
    ready.start().awaitTermination()
