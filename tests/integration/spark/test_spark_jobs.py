"""Spark shows each batch as jobs with descriptions, and a stopped query gives no rows up."""

import threading
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from tests.fixtures.servers.spark import SPARK_EDGES
from tests.fixtures.waiting import eventually
from tests.integration.helpers.batches import Batches, counts_of, fixed
from tests.integration.helpers.file_streams import FileStream, orders
from triggers.spark import BatchReport, ForeachBatch, foreach_batch

pytestmark = [SPARK_EDGES, pytest.mark.prove]

#: A test waits so many seconds for an event.
PATIENCE = 120.0


@pytest.fixture
def batches(spark: SparkSession, redis_url: str) -> Batches:
    return Batches(spark, redis_url)


class Jobs:
    """The jobs that Spark has begun since this object was made."""

    def __init__(self, spark: SparkSession) -> None:
        gate: Any = spark
        self._store = gate.sparkContext._jsc.sc().statusStore()  # noqa: SLF001  (PySpark has no other way)
        self._before = {job.jobId() for job in self._all()}

    def begun(self) -> list[tuple[str, str]]:
        return [(_text(job.description()), _text(job.jobGroup())) for job in self._since()]

    def stages(self, what: str) -> list[int]:
        """Return how many stages each of the jobs with this text in its description has."""
        return [job.stageIds().size() for job in self._since() if what in _text(job.description())]

    def _since(self) -> list[Any]:
        return [job for job in self._all() if job.jobId() not in self._before]

    def _all(self) -> list[Any]:
        jobs = self._store.jobsList(None)
        return [jobs.apply(index) for index in range(jobs.size())]


def _text(option: Any) -> str:
    return str(option.get()) if option.isDefined() else ""


@pytest.fixture
def jobs(spark: SparkSession) -> Jobs:
    return Jobs(spark)


def test_a_rejected_row_is_published_by_one_job(batches: Batches, jobs: Jobs) -> None:
    report = batches.run(["a", ""], partitions=16)

    assert (report.new, report.rejected) == (1, 1)
    eventually(lambda: any("publishes" in text for text, _ in jobs.begun()))
    assert sum("publishes events" in text for text, _ in jobs.begun()) == 1


def test_rejecting_a_batch_is_one_job(batches: Batches, jobs: Jobs) -> None:
    def fail() -> None:
        raise ValueError("the sink is broken")

    assert batches.run(["a", "b"], fail, on_fatal="reject", partitions=16).rejected == 2
    eventually(lambda: any("rejects" in text for text, _ in jobs.begun()))
    assert sum("rejects the batch" in text for text, _ in jobs.begun()) == 1


@pytest.mark.parametrize(("partitions", "stages"), [(1, 1), (2, 2)])
def test_one_partition_is_claimed_and_counted_by_one_task(
    spark: SparkSession, redis_url: str, jobs: Jobs, partitions: int, stages: int
) -> None:
    rows = [(uuid,) for uuid in ("a", "b", "a", "a")]
    batch = fixed(spark, spark.sparkContext.parallelize(rows, partitions), "uuid string")

    @foreach_batch("orders", name="load", uuid="uuid", history=redis_url, query="q", partitions=partitions)
    def load(new: DataFrame, _: int) -> None: ...

    load(batch, 7)

    assert counts_of(load.reports[-1]) == (4, 2, 2, 0, 0)
    eventually(lambda: jobs.stages("claims") != [])
    assert jobs.stages("claims") == [stages]


def test_rows_without_an_identity_are_shared_by_all_tasks(batches: Batches, spark: SparkSession) -> None:
    tasks: list[int] = []

    def keep(rows: DataFrame, _: int) -> None:
        tasks.append(rows.select(F.spark_partition_id()).distinct().count())

    def load(new: DataFrame, _: int) -> None: ...

    made = batches.make(load, parked_to=keep, partitions=4)
    made(spark.range(40).selectExpr("CAST(NULL AS STRING) AS uuid", "id"), 7)

    assert (made.reports[-1].rejected, tasks) == (40, [4])


def test_jobs_say_what_they_are_for_and_stay_in_the_group_of_their_query(
    spark: SparkSession, redis_url: str, tmp_path: Path, jobs: Jobs
) -> None:
    stream = FileStream(spark, tmp_path)
    stream.add(orders(["a", "a"]))

    @foreach_batch("orders", name="load", uuid="uuid", history=redis_url)
    def load(new: DataFrame, _: int) -> None:
        new.collect()

    query = stream.start(load, name="nightly")
    query.awaitTermination()

    eventually(lambda: len(jobs.begun()) >= 2)
    descriptions = [text for text, _ in jobs.begun()]
    assert {group for _, group in jobs.begun()} == {query.runId}
    assert any(text.startswith("nightly") and "doubtless load: claims" in text for text in descriptions)
    assert any(text.startswith("nightly") and "doubtless" not in text for text in descriptions)
    assert load.reports[-1].query == "nightly"


def test_on_batch_is_given_each_report_and_its_failure_touches_no_batch(
    batches: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    given: list[BatchReport] = []

    def listen(report: BatchReport) -> None:
        given.append(report)
        raise RuntimeError("the metrics are away")

    report = batches.run(["a", "b", "b"], on_batch=listen)

    assert given == [report]
    assert (report.new, report.duplicate) == (2, 1)
    assert "on_batch failed" in caplog.text
    assert batches.run(["a"], batch_id=8).duplicate == 1


def _rejecting(redis_url: str, function: Any) -> ForeachBatch:
    return foreach_batch("orders", name="load", uuid="uuid", history=redis_url, on_fatal="reject")(function)


def test_a_failure_that_speaks_of_cancelled_orders_is_a_failure_of_its_rows(batches: Batches) -> None:
    def fail() -> None:
        raise ValueError("order a was cancelled, InterruptedException or not")

    assert batches.run(["a"], fail, on_fatal="reject").rejected == 1


def test_rows_of_a_query_that_is_stopped_are_not_given_up(
    spark: SparkSession, redis_url: str, tmp_path: Path
) -> None:
    stream, entered, told = FileStream(spark, tmp_path), threading.Event(), threading.Event()
    stream.add(orders(["a"]))

    def load(_: DataFrame, __: int) -> None:
        entered.set()
        assert told.wait(PATIENCE)
        raise ValueError("what a library makes of an interruption")

    made = _rejecting(redis_url, load)
    query = stream.start(made)
    assert entered.wait(PATIENCE)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    eventually(lambda: not query.isActive)
    told.set()
    stopping.join(PATIENCE)

    assert not made.reports
    assert Batches(spark, redis_url).parked() == {}


def test_rows_whose_job_somebody_cancels_are_not_given_up(
    spark: SparkSession, redis_url: str, tmp_path: Path
) -> None:
    stream = FileStream(spark, tmp_path)
    stream.add(orders(["a"]))

    def load(new: DataFrame, _: int) -> None:
        def cancel() -> None:
            context = cast("Any", spark.sparkContext)
            eventually(lambda: len(context.statusTracker().getActiveJobsIds()) > 0)
            context.cancelAllJobs()

        cancelling = threading.Thread(target=cancel)
        cancelling.start()
        try:
            new.selectExpr("java_method('java.lang.Thread', 'sleep', 60000L)").collect()
        except Exception as error:
            raise RuntimeError("the sink failed") from error
        finally:
            cancelling.join(PATIENCE)

    made = _rejecting(redis_url, load)

    with pytest.raises(StreamingQueryException, match="the sink failed"):
        stream.run(made)

    assert not made.reports
    assert Batches(spark, redis_url).parked() == {}
