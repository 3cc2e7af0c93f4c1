"""Trigger services that run row by row on the executors."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession

from history import ParkedKind
from tests.fixtures.histories import with_store
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.spark import SPARK
from tests.integration.helpers.file_streams import FileStream
from triggers import FatalError, Message, TransientError, trigger

pytestmark = SPARK


class Order(BaseModel):
    id: str


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> FileStream:
    return FileStream(spark, tmp_path)


@pytest.fixture
def ran(redis_url: str) -> Iterator[object]:
    with connected(redis_url) as client:
        yield lambda: sorted(one.decode() for one in client.lrange("ran", 0, -1))


def test_a_service_runs_once_for_each_row_on_the_executors(
    stream: FileStream, redis_url: str, ran: object
) -> None:
    @trigger("orders", name="book", history=redis_url)
    def book(order: Order, message: Message) -> None:
        if order.id == "bad":
            raise FatalError("no such order")
        with connected(redis_url) as client:
            client.rpush("ran", f"{order.id} {message.properties['shop']} {message.correlation_id}")

    stream.schema = "uuid string, value string, shop string, JMSCorrelationID string"
    rows = [{"uuid": one, "value": json.dumps({"id": one})} for one in ("a", "b", "a", "bad")]
    stream.add([{**row, "shop": "s1", "JMSCorrelationID": "c1"} for row in rows])
    stream.add([{**rows[1], "shop": "s1"}, {**rows[3], "shop": "s1"}])
    service = book.foreach_batch(uuid="uuid", body="value")

    stream.run(service)  # type: ignore[arg-type]

    assert ran() == ["a s1 c1", "b s1 c1"]  # type: ignore[operator]
    told = [(one.rows, one.new, one.duplicate, one.rejected) for one in service.reports]
    assert told == [(4, 2, 1, 1), (2, 0, 2, 0)]
    (parked,) = with_store(redis_url, lambda store: store.parking.list())
    assert (parked.uuid, parked.kind) == ("bad", ParkedKind.REJECTED)


def test_rows_of_a_batch_that_has_to_come_again_count_as_new_once(
    spark: SparkSession, redis_url: str
) -> None:
    @trigger("orders", name="book", history=redis_url, on_retry_failure="suspend")
    def book(order: Order) -> None:
        with connected(redis_url) as client:
            if order.id == "b" and not client.exists("bank is open"):
                raise TransientError("the bank is closed")

    service = book.foreach_batch(uuid="uuid", body="value", query="q")
    rows = spark.sql(
        """select uuid, '{"id": "' || uuid || '"}' as value from values ('a'), ('b') as t (uuid)"""
    )

    with pytest.raises(TransientError, match="1 rows of batch 0 are undecided"):
        service(rows, 0)
    with connected(redis_url) as client:
        client.set("bank is open", 1)
    service(rows, 0)

    assert +service.counts.by_query()["q"] == {"new": 2, "duplicate": 1}
