"""``foreach_batch`` on a Redis history beside ``dropDuplicatesWithinWatermark`` on RocksDB state.

Spark keeps a state for each shuffle partition and commits each of them with every micro-batch, so how many
there are decides how fast it is, and they stay as many as they were when the query first ran. And it looks
through all of its state in every micro-batch, so how much is remembered decides as well. It is measured from
an empty state with Spark's 200 partitions, with eight for each core and with as many as there are cores, the
fewest that make sense; and with the fewest again, where millions of rows are remembered.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.bench import Bench
from benchmarks.measuring import WARM_UP, Rounds, Times
from benchmarks.result import SPEED, Budget, Result, speeds
from benchmarks.servers import scratch
from triggers.spark import foreach_batch

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

COMPETITORS = ("doubtless", "rocksdb")

#: Micro-batches of one stream; a fifth of the rows of each are duplicates, half of them of the batch before.
_BATCHES = 4

#: The threads of the session, which are its cores.
CORES = 2

#: By shuffle partitions, the rounds that are measured and those before them: each starts two queries, which
#: takes long, and after the first few the JVM is warm.
_ROUNDS = {CORES: (3, WARM_UP), 8 * CORES: (2, 0), 200: (1, 0)}

#: A query that remembers much: the micro-batches after its past that are not measured, the measured ones, and
#: its remembered entries as a multiple of the effort's "many".
_LATER, _COUNTED, _TIMES = 1, 12, 2

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
    with scratch() as folder:
        queries = _Queries(bench, session(folder), folder)
        try:
            for partitions, (count, warm_up) in _ROUNDS.items():
                rounds = Rounds(count=count, messages=rows, progress=bench.progress, warm_up=warm_up)
                yield queries.compare(rounds, partitions)
            yield queries.compare_remembering(_TIMES * bench.effort.entries, rows // _BATCHES)
        finally:
            queries.spark.stop()


@dataclass(frozen=True, slots=True)
class _Queries:
    """Queries of one session, and where their streams and checkpoints are."""

    bench: Bench
    spark: SparkSession
    folder: Path

    def compare(self, rounds: Rounds, partitions: int) -> Result:
        """Compare streams that begin with nothing."""
        self.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        size = rounds.messages // _BATCHES
        what = f"foreach_batch, {_BATCHES} micro-batches of {size:,} rows, {partitions} shuffle partitions"

        def make(count: int) -> Sequence[Path]:
            return [self._stream(_BATCHES, count // _BATCHES)]

        passes = {name: partial(self._pass, name) for name in COMPETITORS}
        return _result(what, rounds.run(what, make, passes))

    def compare_remembering(self, past: int, size: int) -> Result:
        """Compare the micro-batches of streams that begin with very many rows in one batch."""
        self.spark.conf.set("spark.sql.shuffle.partitions", str(CORES))
        what = f"foreach_batch, {past:,} rows remembered, {size:,} a batch, {CORES} shuffle partitions"
        times: dict[str, Sequence[float]] = {}
        for name in self.bench.progress.track(COMPETITORS, description=what):
            seconds = self._run(name, self._stream(_LATER + _COUNTED, size, past))
            times[name] = [duration / size for duration in seconds[-_COUNTED:]]
        return _result(what, Times(times))

    def _stream(self, batches: int, size: int, past: int = 0) -> Path:
        """Write a stream of so many micro-batches, after one with the past."""
        source = self.folder / f"stream-{next(self.bench.numbers)}"
        if past:
            _write(self.spark, source / "past", -1, past)
        for batch in range(batches):
            _write(self.spark, source / f"{batch}", batch, size)
        return source

    def _pass(self, name: str, material: Sequence[Path]) -> None:
        self._run(name, material[0])

    def _run(self, name: str, source: Path) -> Sequence[float]:
        """Run a query over all of a stream; return how long each micro-batch took, in seconds."""
        checkpoint = str(self.folder / f"c{next(self.bench.numbers)}")
        writer = self._writer(name, _read(self.spark, source)).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
        return [progress["durationMs"]["triggerExecution"] / 1000 for progress in batches]

    def _writer(self, name: str, stream: DataFrame) -> DataStreamWriter:
        if name == "rocksdb":
            return without_duplicates(stream).writeStream.foreachBatch(throw_away)
        ours = foreach_batch("queue", name="spark", uuid="uuid", history=self.bench.server.url)
        return ours(throw_away).write_stream(stream)


def _result(what: str, times: Times) -> Result:
    beside, budget = "dropDuplicatesWithinWatermark, RocksDB", Budget(1.2, SPEED, at_least=True)
    return speeds(times, "doubtless", "rocksdb", what=what, beside=beside, unit="rows/s", budget=budget)


def without_duplicates(stream: DataFrame) -> DataFrame:
    """Return a stream as Spark drops its duplicates by itself."""
    return stream.withWatermark("sent", "7 days").dropDuplicatesWithinWatermark(["uuid"])


def session(folder: Path) -> SparkSession:
    """Start Spark with the cores that are measured."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(f"local[{CORES}]").appName("doubtless-bench")
    for name, value in {**_SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _write(spark: SparkSession, folder: Path, batch: int, rows: int) -> None:
    """Write one micro-batch: 1 in 10 rows repeats a row of the batch, 1 in 10 a row of the batch before."""
    stream = folder.parent.name
    number = f"""CASE WHEN id % 10 = 0 AND {batch} > 0 THEN id + 1 - {rows}
                     WHEN id % 10 = 9 THEN id - 1 ELSE id END + {batch * rows}"""
    spark.range(rows).selectExpr(
        f"concat('{stream}-5f0c6b1e-9f5d-4a70-', lpad(cast({number} as string), 12, '0')) as uuid",
        "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id % 3600) as sent",
        "repeat('x', 200) as body",
    ).coalesce(1).write.parquet(str(folder))


def _read(spark: SparkSession, source: Path) -> DataFrame:
    reader = spark.readStream.schema("uuid string, sent timestamp, body string")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(source / "*"))


def throw_away(new: DataFrame, _: int) -> None:
    """Compute all rows, and keep none."""
    new.write.format("noop").mode("overwrite").save()
