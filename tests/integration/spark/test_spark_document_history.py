"""The document history as a table of Spark: every entry, from many tasks, in every store."""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from history import Uuid, open_history
from history.bridge import drive
from history.entry import EntryOutcome, Settlement, short_digest
from history.store import BatchOwner, HistoryStore
from tests.fixtures.servers.spark import SPARK
from triggers.spark.document_history import DocumentHistorySource

pytestmark = [SPARK, pytest.mark.prove]

COMPLETED = [f"done-{number}" for number in range(700)]


@pytest.fixture
def remembered(history_url: str) -> Iterator[HistoryStore]:
    """A history with completed entries, a failed one, one in flight, and one of an open batch."""
    store = open_history(history_url)
    claims = drive(store.claim("book", [*COMPLETED, "failed", "in-flight"], "worker-1"))
    settlements = [
        Settlement(Uuid(uuid), claim.fence, EntryOutcome.FAILED if uuid == "failed" else EntryOutcome.OK)
        for uuid, claim in zip([*COMPLETED, "failed"], claims, strict=False)
    ]
    drive(store.settle("book", settlements))
    drive(store.claim("book", ["batched"], BatchOwner("query-1/7")))
    drive(store.claim("ship", ["parcel"], "worker-2"))
    yield store
    drive(store.close())


def loaded(spark: SparkSession, **options: str) -> DataFrame:
    spark.dataSource.register(DocumentHistorySource)
    return spark.read.format("document_history").options(**options).load()


def test_every_entry_of_a_trigger_is_there_once(
    spark: SparkSession, history_url: str, remembered: HistoryStore
) -> None:
    table = loaded(spark, url=history_url, trigger="book", partitions="4")

    rows: dict[bytes, Row] = {bytes(row.digest): row for row in table.collect()}

    assert sorted(rows) == sorted(map(short_digest, [*COMPLETED, "failed", "in-flight", "batched"]))
    assert len(rows) == table.count()
    assert table.rdd.getNumPartitions() == 4
    done, failed, flying, batched = (
        rows[short_digest(uuid)] for uuid in ("done-3", "failed", "in-flight", "batched")
    )
    assert [row.trigger for row in (done, batched)] == ["book", "book"]
    assert [row.state for row in (done, failed, flying, batched)] == ["completed"] * 2 + ["started"] * 2
    assert [row.outcome for row in (done, failed, flying)] == ["ok", "failed", None]
    assert (flying.owner, batched.owner, flying.batch, batched.batch) == (
        "worker-1",
        "query-1/7",
        False,
        True,
    )
    known = drive(remembered.lookup("book", ["in-flight"]))[0]
    assert known is not None
    assert flying.fence == known.fence
    assert flying.started_at.timestamp() == pytest.approx(known.started_at.timestamp(), abs=0.002)
    assert flying.lease_until is None


@pytest.mark.parametrize("history_url", ["redis"], indirect=True)
def test_without_a_trigger_all_are_read(
    spark: SparkSession, history_url: str, remembered: HistoryStore
) -> None:
    counts = loaded(spark, url=history_url, partitions="2").groupBy("trigger").count().collect()

    assert {row[0]: row[1] for row in counts} == {"book": 703, "ship": 1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "has no url"),
        ({"url": "memory://"}, "belongs to one process"),
        ({"url": "redis://x", "partitions": "3"}, "ConfigurationError: partitions: "),
        ({"url": "redis://x", "triger": "book"}, "has no option triger"),
    ],
    ids=["no url", "memory", "three parts", "a slip of the pen"],
)
def test_what_cannot_be_is_said(spark: SparkSession, options: dict[str, str], words: str) -> None:
    with pytest.raises(PySparkException, match=words):
        loaded(spark, **options).count()
