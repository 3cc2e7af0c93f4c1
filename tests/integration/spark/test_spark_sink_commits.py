"""Sinks that know which batches they have committed: ``committed=`` makes them exactly once."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Connection, create_engine, text

from history import ConfigurationError, ParkedKind
from tests.fixtures.servers.spark import SPARK_EDGES
from tests.integration.helpers.batches import Batches, DiedError
from triggers import Retry, TransientError
from triggers.spark import BatchInfo, BatchReport
from triggers.spark.batch.batch import BatchStep
from triggers.spark.batch.sink_commits import LEFT_OUT

pytestmark = [SPARK_EDGES, pytest.mark.prove]


class Sink(Protocol):
    """A sink that is written by batch, and knows which batches it contains."""

    def write(self, new: DataFrame, batch: BatchInfo, *, commits: bool) -> None: ...

    def committed(self, batch: BatchInfo) -> bool: ...

    def holds(self) -> Counter[str]: ...


class Parquet:
    """A folder for each batch. Spark writes ``_SUCCESS`` into it at the end."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder / "parquet"

    def _of(self, batch: BatchInfo) -> Path:
        return self.folder / f"lineage={batch.lineage}" / f"batch_id={batch.batch_id}"

    def write(self, new: DataFrame, batch: BatchInfo, *, commits: bool) -> None:
        new.write.mode("overwrite").parquet(str(self._of(batch)))
        if not commits:
            (self._of(batch) / "_SUCCESS").unlink()

    def committed(self, batch: BatchInfo) -> bool:
        return (self._of(batch) / "_SUCCESS").exists()

    def holds(self) -> Counter[str]:
        return Counter(row.uuid for row in self.spark.read.parquet(str(self.folder)).select("uuid").collect())


class Sql:
    """A table of rows and a table of committed batches, in a database without the history."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        _ = spark
        self.engine = create_engine(f"sqlite:///{folder / 'sink.db'}")
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (uuid TEXT)"))
            connection.execute(
                text("CREATE TABLE batches (lineage TEXT, batch INTEGER, PRIMARY KEY (lineage, batch))")
            )

    def write(self, new: DataFrame, batch: BatchInfo, *, commits: bool) -> None:
        with self.engine.connect() as connection:
            for row in new.collect():
                connection.execute(text("INSERT INTO orders VALUES (:uuid)"), {"uuid": row.uuid})
            self._note(connection, batch)
            if commits:
                connection.commit()

    def _note(self, connection: Connection, batch: BatchInfo) -> None:
        name = {"lineage": batch.lineage, "batch": batch.batch_id}
        connection.execute(text("INSERT INTO batches VALUES (:lineage, :batch)"), name)

    def committed(self, batch: BatchInfo) -> bool:
        name = {"lineage": batch.lineage, "batch": batch.batch_id}
        asked = text("SELECT 1 FROM batches WHERE lineage = :lineage AND batch = :batch")
        with self.engine.connect() as connection:
            return connection.execute(asked, name).first() is not None

    def holds(self) -> Counter[str]:
        with self.engine.connect() as connection:
            return Counter(connection.execute(text("SELECT uuid FROM orders")).scalars())


class Knowing:
    """Writes batches to a sink, dies or fails where the test wants it, and notes its calls."""

    def __init__(self, batches: Batches, sink: Sink) -> None:
        self.batches = batches
        self.sink = sink
        self.asked: list[BatchInfo] = []
        self.given: list[list[str]] = []

    def run(
        self,
        uuids: Sequence[str],
        *,
        commits: bool = True,
        then: Callable[[], None] = lambda: None,
        dies_at: BatchStep | None = None,
        **settings: Any,
    ) -> BatchReport:
        def load(new: DataFrame, batch: BatchInfo) -> None:
            self.given.append(sorted(row.uuid for row in new.collect()))
            self.sink.write(new, batch, commits=commits)
            then()

        def committed(batch: BatchInfo) -> bool:
            self.asked.append(batch)
            return self.sink.committed(batch)

        def observe(step: BatchStep) -> None:
            if step is dies_at:
                raise DiedError

        made = self.batches.make(load, **{"committed": committed, **settings})
        made.observe = observe
        made(self.batches.rows(uuids), 7)
        return made.reports[-1]

    def run_and_die(self, uuids: Sequence[str], **how: Any) -> None:
        with pytest.raises(DiedError):
            self.run(uuids, **how)


@pytest.fixture
def batches(spark: SparkSession, redis_url: str) -> Batches:
    return Batches(spark, redis_url)


@pytest.fixture(params=[Parquet, Sql])
def knowing(request: pytest.FixtureRequest, batches: Batches, tmp_path: Path) -> Knowing:
    return Knowing(batches, request.param(batches.spark, tmp_path))


@pytest.fixture
def sql(batches: Batches, tmp_path: Path) -> Knowing:
    return Knowing(batches, Sql(batches.spark, tmp_path))


def die() -> None:
    raise DiedError


ROWS = ["a", "b", "b", "c"]
ONCE = Counter("abc")


def test_a_driver_that_dies_after_the_commit_is_not_called_again(knowing: Knowing) -> None:
    knowing.run_and_die(ROWS, then=die)

    report = knowing.run(ROWS)

    assert knowing.given == [["a", "b", "c"]]
    assert knowing.asked == [BatchInfo(query="q", lineage="q", batch_id=7, attempt=2)]
    assert (report.rows, report.new, report.duplicate, report.in_doubt) == (4, 3, 1, 0)
    assert "the sink had committed it already" in report.notes
    assert knowing.sink.holds() == ONCE
    assert knowing.run(ROWS).duplicate == 4


def test_a_driver_that_dies_before_the_commit_is_given_the_same_rows_again(knowing: Knowing) -> None:
    knowing.run_and_die(ROWS, commits=False, then=die)

    report = knowing.run(ROWS)

    assert knowing.given == [["a", "b", "c"]] * 2
    assert (report.new, report.duplicate, report.in_doubt) == (3, 1, 0)
    assert knowing.sink.holds() == ONCE
    assert knowing.batches.parked() == {}


def test_a_sink_is_not_asked_about_a_batch_that_never_entered_the_function(sql: Knowing) -> None:
    sql.run_and_die(ROWS, dies_at=BatchStep.CLAIMED)

    sql.run(ROWS)

    assert (sql.asked, sql.sink.holds()) == ([], ONCE)


@pytest.mark.parametrize("step", [BatchStep.CLAIMED, BatchStep.COMPLETED])
def test_a_driver_may_die_again_while_it_completes_what_the_sink_has(sql: Knowing, step: BatchStep) -> None:
    sql.run_and_die(ROWS, then=die)
    sql.run_and_die(ROWS, dies_at=step)

    report = sql.run(ROWS)

    assert len(sql.given) == 1
    assert (report.in_doubt, sql.sink.holds()) == (0, ONCE)
    assert sql.run(ROWS).duplicate == 4


@pytest.mark.parametrize("error", [TransientError("no answer"), ValueError("no answer")])
def test_a_failure_after_the_commit_is_none(
    sql: Knowing, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    with caplog.at_level(logging.WARNING):
        report = sql.run(ROWS, then=fail, retry=Retry(max_attempts=2), on_fatal="reject")

    assert (len(sql.given), report.new, report.rejected) == (1, 3, 0)
    assert "but was committed" in caplog.text
    assert sql.sink.holds() == ONCE


def test_a_transient_failure_before_the_commit_is_tried_again_and_keeps_its_rows(sql: Knowing) -> None:
    def fail() -> None:
        raise TransientError("the sink is away")

    with pytest.raises(TransientError, match="the sink is away"):
        sql.run(ROWS, commits=False, then=fail, retry=Retry(max_attempts=1), lease=None)
    elsewhere = sql.batches.run(["a"], batch_id=1, query="another")
    report = sql.run(ROWS)

    assert sql.given == [["a", "b", "c"]] * 3
    assert (elsewhere.in_doubt, report.new) == (1, 3)
    assert sql.sink.holds() == ONCE


def test_a_batch_waits_for_a_sink_that_does_not_answer(sql: Knowing) -> None:
    def away(batch: BatchInfo) -> bool:
        raise ConnectionError("the sink is away")

    sql.run_and_die(ROWS, then=die)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="the sink is away"):
            sql.run(ROWS, committed=away)

    assert sql.run(ROWS).new == 3
    assert (len(sql.given), sql.sink.holds()) == (1, ONCE)


def test_a_failure_of_the_function_is_told_where_the_sink_does_not_answer(sql: Knowing) -> None:
    def away(batch: BatchInfo) -> bool:
        raise ConnectionError("the sink is away")

    def fail() -> None:
        raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        sql.run(ROWS, then=fail, committed=away, on_fatal="reject")

    assert sql.run(ROWS).new == 3
    assert sql.batches.parked() == {}


@pytest.mark.parametrize("storage", ["memory_and_disk", "none"])
def test_a_row_that_the_sink_was_not_handed_is_kept_for_a_decision(sql: Knowing, storage: str) -> None:
    sql.run_and_die(ROWS, then=die, storage=storage)

    report = sql.run([*ROWS, "late", "late"], in_doubt="execute", storage=storage)

    assert (report.new, report.in_doubt) == (3, 2)
    parked = sql.batches.parked()
    assert {uuid: kind for uuid, (kind, _) in parked.items()} == {"late": ParkedKind.IN_DOUBT}
    assert LEFT_OUT in parked["late"][1]
    assert sql.sink.holds() == ONCE


def test_an_answer_that_is_neither_yes_nor_no_fails_the_query(sql: Knowing) -> None:
    def shrugs(batch: BatchInfo) -> None: ...

    sql.run_and_die(ROWS, then=die)

    with pytest.raises(ConfigurationError, match="committed: answered None"):
        sql.run(ROWS, committed=shrugs)


def test_a_sink_that_knows_its_commits_needs_no_other_answer(batches: Batches) -> None:
    with pytest.raises(ConfigurationError, match="leave on_replay out, or committed"):
        batches.make(
            lambda _, __: None, committed=Parquet(batches.spark, Path()).committed, on_replay="execute"
        )
