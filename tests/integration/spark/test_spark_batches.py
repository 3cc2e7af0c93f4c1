"""Micro-batches and the document history: rows are new, duplicates, or parked."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from pyspark import java_gateway
from pyspark.sql import DataFrame, SparkSession

from history import Parked, ParkedKind
from tests.fixtures.histories import with_store
from tests.fixtures.servers.spark import SPARK
from tests.fixtures.waiting import eventually
from tests.integration.helpers.batches import counts_of
from tests.integration.helpers.file_streams import FileStream, orders
from triggers.spark import ForeachBatch, foreach_batch

pytestmark = SPARK


class Sink:
    """Gathers the rows that a function received."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.fails: Exception | None = None

    def __call__(self, new: DataFrame, _: int) -> None:
        self.rows += new.collect()
        if self.fails is not None:
            raise self.fails

    @property
    def uuids(self) -> list[str]:
        return sorted(row.uuid for row in self.rows)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> FileStream:
    return FileStream(spark, tmp_path)


@pytest.fixture
def sink() -> Sink:
    return Sink()


def _load(sink: Sink, url: str, **settings: Any) -> ForeachBatch:
    columns: dict[str, Any] = {"message_id": "JMSMessageID", "delivery_count": "JMSXDeliveryCount"}
    given: dict[str, Any] = {**columns, "body": "body", **settings}
    return foreach_batch("orders", name="load", uuid="uuid", history=url, **given)(sink)


def _parked(url: str) -> list[Parked]:
    return list(with_store(url, lambda store: store.parking.list()))


def test_a_row_is_handed_over_once_within_a_batch_across_batches_and_restarts(
    stream: FileStream, sink: Sink, history_url: str
) -> None:
    stream.add(orders(["a", "b", "a", "c", "a"]))
    stream.add(orders(["b", "d"]))
    load = _load(sink, history_url)
    stream.run(load)
    stream.add(orders(["c", "e", "e"]))
    again = _load(sink, history_url)
    stream.run(again)

    assert sink.uuids == ["a", "b", "c", "d", "e"]
    assert [counts_of(one) for one in load.reports] == [(5, 3, 2, 0, 0), (2, 1, 1, 0, 0)]
    assert [counts_of(one) for one in again.reports] == [(3, 1, 2, 0, 0)]


@pytest.mark.parametrize(
    ("settings", "tasks"), [({"delivery_count": "JMSXDeliveryCount"}, 2), ({"partitions": 3}, 3), ({}, 1)]
)
def test_a_batch_is_a_task_for_each_core_or_partition_unless_it_is_told(
    stream: FileStream, redis_url: str, settings: Any, tasks: int
) -> None:
    seen: list[int] = []
    load = foreach_batch("orders", name="load", uuid="uuid", history=redis_url, **settings)(
        lambda new, _: seen.append(new.rdd.getNumPartitions())
    )
    stream.add(orders(["a", "b"]))
    before = stream.spark.conf.get("spark.sql.shuffle.partitions")
    stream.spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        stream.run(load)
    finally:
        stream.spark.conf.set("spark.sql.shuffle.partitions", before or "2")

    assert seen == [tasks]


def test_the_function_meets_the_settings_of_its_own_session(spark: SparkSession, redis_url: str) -> None:
    seen: list[dict[str, str | None]] = []
    own = {"spark.sql.adaptive.enabled": "true", "spark.sql.inMemoryColumnarStorage.compressed": "true"}
    load = foreach_batch("orders", name="load", uuid="uuid", history=redis_url, query="backfill")(
        lambda new, _: seen.append({name: new.sparkSession.conf.get(name) for name in own})
    )

    load(spark.sql("SELECT 'a' AS uuid"), 0)

    assert seen == [own]


class Metrics:
    """A listener of Spark that gathers the observed metrics of one trigger."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[dict[str, int]] = []

    def onSuccess(self, _function: str, execution: Any, _nanoseconds: int) -> None:  # noqa: N802  (Spark calls it so)
        metrics = execution.observedMetrics()
        if metrics.contains(self.name):
            self.seen.append(json.loads(metrics.apply(self.name).json()))

    def onFailure(self, _function: str, _execution: Any, _error: Any) -> None:  # noqa: N802  (Spark calls it so)
        """Nothing fails here."""

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.util.QueryExecutionListener"]


@pytest.fixture
def metrics(spark: SparkSession) -> Iterator[Metrics]:
    listener: Any = Metrics("doubtless:load")
    listeners = cast("Any", spark)._jsparkSession.listenerManager()  # noqa: SLF001  (PySpark has no other way)
    gateway = cast("Any", spark.sparkContext)._gateway  # noqa: SLF001
    cast("Any", java_gateway).ensure_callback_server_started(gateway)
    listeners.register(listener)
    yield listener
    listeners.unregister(listener)


def test_the_counts_of_a_batch_are_observed_metrics(
    stream: FileStream, sink: Sink, metrics: Metrics, redis_url: str
) -> None:
    stream.add(orders(["a", "b", "a"]))
    stream.add([*orders(["b", "c"]), *orders(["over"], JMSXDeliveryCount=4)])

    stream.run(_load(sink, redis_url, max_delivery_count=3))

    eventually(lambda: len(metrics.seen) == 2)
    assert metrics.seen == [
        {"rows": 3, "new": 2, "duplicate": 1, "aside": 0},
        {"rows": 3, "new": 1, "duplicate": 1, "aside": 1},
    ]


def test_counts_identities_and_broken_rows_are_judged_as_messages_are(
    stream: FileStream, sink: Sink, redis_url: str
) -> None:
    rows = [
        *orders(["over"], JMSXDeliveryCount=4),
        *orders(["broken"], JMSXDeliveryCount=0),
        *orders([None, "  ", "twice", "twice"]),
        *orders([None], JMSMessageID="ID:1"),
        *orders(["ID:1"]),
    ]
    stream.add([{**row, "JMSMessageID": row.get("JMSMessageID")} for row in rows])
    load = _load(sink, redis_url, max_delivery_count=3)

    stream.run(load)

    assert counts_of(load.reports[-1]) == (8, 3, 2, 0, 3)
    assert Counter(row.uuid for row in sink.rows) == {"twice": 1, "  ": 1, sink_identity(sink): 1}
    parked = {one.reason: one for one in _parked(redis_url)}
    kinds = sorted(one.kind for one in parked.values())
    assert kinds == [ParkedKind.REJECTED, ParkedKind.REJECTED, ParkedKind.UNREADABLE]
    assert "its delivery count, uuid or message id is not valid" in parked


def test_columns_of_any_name_and_kind_are_handed_over(
    spark: SparkSession, sink: Sink, redis_url: str
) -> None:
    variant = ", parse_json('{\"k\": 4}') AS any" if spark.version >= "4" else ""
    row = f"""
        SELECT 'a' AS `order``s id`, '7' AS `how.often`, map('k', 1) AS one, array(map('k', 2)) AS some,
               named_struct('inner', map('k', 3)) AS held{variant}
    """
    settings: dict[str, Any] = {"uuid": "order`s id", "delivery_count": "how.often", "query": "backfill"}
    load = foreach_batch("orders", name="load", history=redis_url, **settings)(sink)
    batch = spark.sql(row)

    load(batch.union(batch), 0)

    assert counts_of(load.reports[-1]) == (2, 1, 1, 0, 0)
    assert str(sink.rows) == str(batch.collect())


def sink_identity(sink: Sink) -> str | None:
    (row,) = [one for one in sink.rows if one.JMSMessageID == "ID:1" or one.uuid == "ID:1"]
    return None if row.uuid is None else str(row.uuid)
