"""Some sessions, such as Databricks, refuse settings and persisted frames that make a batch fast."""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

import pytest
from py4j import protocol  # pyright: ignore[reportMissingTypeStubs]
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from history import ParkedKind, open_history
from history.bridge import drive
from history.store import BatchOwner, HistoryStore
from resolvers import Resolution
from tests.fixtures.servers.spark import SPARK_EDGES
from tests.integration.helpers.batches import Batches
from triggers import Message
from triggers.spark.batch.batch import BatchStep
from triggers.spark.batch.session import persisted

pytestmark = [SPARK_EDGES, pytest.mark.prove]

REFUSALS: dict[str, Callable[[str], Exception]] = {
    "serverless": lambda what: AnalysisException(
        f"[NOT_SUPPORTED_WITH_SERVERLESS] {what} is not supported on serverless compute. SQLSTATE: 0A000"
    ),
    "standard": lambda what: cast("Any", protocol).Py4JError(
        f"py4j.security.Py4JSecurityException: Method public {what} is not whitelisted on class Dataset"
    ),
}


@pytest.fixture(params=REFUSALS)
def refused(
    request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Let the session refuse, and record each refusal in the list."""
    refusal, seen = REFUSALS[request.param], list[str]()

    def refuse(what: str) -> Callable[..., NoReturn]:
        def refusing(*_: object, **__: object) -> NoReturn:
            seen.append(what)
            raise refusal(what)

        return refusing

    monkeypatch.setattr(type(spark.range(1)), "persist", refuse("persist"))
    monkeypatch.setattr(type(spark.conf), "set", refuse("set"))
    asked = spark.conf.get

    def get(_: object, name: str, *more: str) -> str | None:
        return "auto" if name == "spark.sql.shuffle.partitions" else asked(name, *more)

    monkeypatch.setattr(type(spark.conf), "get", get)
    return seen


@pytest.fixture
def batches(spark: SparkSession, redis_url: str) -> Batches:
    return Batches(spark, redis_url)


@pytest.fixture
def store(redis_url: str) -> Iterator[HistoryStore]:
    store = open_history(redis_url)
    yield store
    drive(store.close())


def test_a_batch_comes_out_the_same_where_nothing_may_be_kept_or_set(
    batches: Batches, refused: list[str]
) -> None:
    kept: list[tuple[str, str]] = []
    answers = {"b": Resolution.NEW, "c": Resolution.DUPLICATE}

    def resolve(uuid: str, trigger_name: str, message: Message) -> Resolution:
        return answers.get(uuid, Resolution.IN_DOUBT)

    def keep(rows: DataFrame, _: int) -> None:
        kept.extend((row.uuid, row.doubtless_status) for row in rows.collect())

    batches.run(["old"], batch_id=6)
    batches.run_and_die(BatchStep.RUN, ["a", "b", "c"])
    batches.take()

    report = batches.run(
        ["a", "b", "b", "c", "d", "e", "e", "old", ""], resolver=resolve, parked_to=keep, partitions=2
    )

    assert (report.new, report.duplicate, report.in_doubt, report.rejected) == (3, 4, 1, 1)
    assert batches.take() == ["b", "d", "e"]
    assert sorted(kept) == [("", "REJECTED"), ("a", "IN_DOUBT")]
    assert batches.parked()["a"][0] is ParkedKind.IN_DOUBT
    assert batches.run(["b", "d", "e"], batch_id=8, partitions=2).duplicate == 3
    assert {*refused} == {"persist", "set"}


def test_a_session_that_tells_no_number_of_partitions_is_given_one(
    batches: Batches, refused: list[str]
) -> None:
    assert batches.run(["a", "b"]).new == 2
    assert refused


def test_the_function_reads_the_rows_that_were_counted_whatever_others_do_meanwhile(
    batches: Batches, store: HistoryStore
) -> None:
    dead = BatchOwner("another/1/run")
    drive(store.claim("load", ["theirs"], dead))
    batches.run(["old"], batch_id=6)
    batches.take()
    read: list[list[str]] = []

    def load(new: DataFrame, _: int) -> None:
        read.append(sorted(row.uuid for row in new.collect()))
        assert drive(store.settle_batch("load", dead, None))  # released: the next claim gets it
        assert drive(store.forget("load", "old"))
        read.append(sorted(row.uuid for row in new.collect()))

    made = batches.make(load, storage="none")
    made(batches.rows(["new", "old", "theirs"]), 7)

    assert read == [["new"], ["new"]]
    report = made.reports[-1]
    assert (report.new, report.duplicate, report.in_doubt) == (1, 1, 1)
    assert drive(store.lookup("load", ["old", "theirs"])) == [None, None]


def test_a_batch_that_died_where_nothing_is_kept_is_handed_over_again_whole(batches: Batches) -> None:
    settings: dict[str, Any] = {"on_replay": "execute", "storage": "none"}
    batches.run(["a", "b"], **settings)
    batches.run_and_die(BatchStep.RUN, ["a", "b", "c"], **settings)
    batches.take()

    report = batches.run(["a", "b", "c"], **settings)

    assert (report.new, report.duplicate, report.attempt) == (3, 0, 3)
    assert batches.take() == ["a", "b", "c"]


@pytest.mark.parametrize("storage", ["memory_and_disk", "disk_only"])
def test_rows_are_kept_where_the_settings_say(spark: SparkSession, storage: Any) -> None:
    frame = spark.range(1)

    assert persisted(frame, storage)

    level = frame.storageLevel
    frame.unpersist()
    assert (level.useMemory, level.useDisk) == (storage == "memory_and_disk", True)


def test_few_tasks_claim_and_many_partitions_are_handed_over(batches: Batches) -> None:
    seen: list[int] = []
    made = batches.make(lambda new, _: seen.append(new.rdd.getNumPartitions()), claims=1, partitions=3)

    made(batches.rows(["a", "b"]), 7)

    assert (seen, made.reports[-1].new) == ([3], 2)
