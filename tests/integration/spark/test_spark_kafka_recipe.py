"""The recipe for Kafka: a service on a topic and a Spark query over it share one history.

The frame has the shape of Spark's Kafka source, and holds what a consumer read from the topic. The source
itself is a jar: ``tests/crash/spark/test_spark_lake.py`` runs it.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from confluent_kafka import Consumer as Member
from confluent_kafka import Producer as RawProducer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from tests import ROOT
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.spark import SPARK
from triggers import Consumer, Message, trigger

pytestmark = [SPARK, pytest.mark.prove]

SHAPE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)

#: Headers of the records. The service and the query read the same identity, so each record runs once.
IDENTITIES: list[list[tuple[str, str | bytes | None]]] = [
    [("uuid", b"order-0")],
    [("uuid", b"ignored"), ("uuid", b"order-1")],
    [("JMSMessageID", b"ID:2")],
    [("colour", b"red")],
    [],
]


@pytest.fixture
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer() as server:
        server.create("orders", 2)
        yield server


def fill(server: KafkaServer) -> None:
    producer = RawProducer({"bootstrap.servers": server.address, "log_level": 0})
    for number, headers in enumerate(IDENTITIES):
        producer.produce("orders", b"%d" % number, headers=headers, partition=number % 2)
    assert producer.flush(30) == 0


def records_of(server: KafkaServer, spark: Any) -> DataFrame:
    """Return the topic as Spark's source would."""
    member = Member(
        {"bootstrap.servers": server.address, "group.id": "shape", "auto.offset.reset": "earliest"}
    )
    member.subscribe(["orders"])
    rows: list[tuple[Any, ...]] = []
    while len(rows) < len(IDENTITIES):
        record = member.poll(10)
        assert record is not None
        assert record.error() is None
        came: Any = record.headers() or ()
        headers = [(name, bytearray(value)) for name, value in came] or None
        sent = datetime.fromtimestamp(record.timestamp()[1] / 1000, UTC)
        place = (record.topic(), record.partition(), record.offset(), sent, 0)
        rows.append((None, bytearray(record.value() or b""), *place, headers))
    member.close()
    return cast("DataFrame", spark.createDataFrame(rows, SHAPE))


def recipe() -> str:
    """Return the expression that the page shows."""
    page = (ROOT / "docs/how-to/run-on-kafka.md").read_text(encoding="utf-8")
    found = re.search(r'uuid = F\.expr\(\s+"""(.+?)"""', page, re.DOTALL)
    assert found is not None
    return found[1]


def test_a_service_and_a_query_over_one_topic_run_each_message_once(
    spark: SparkSession, kafka: KafkaServer, redis_url: str
) -> None:
    @trigger("orders", name="book", history=redis_url)
    def book(body: bytes, message: Message) -> None:
        with connected(redis_url) as client:
            client.rpush("ran", body)

    fill(kafka)
    Consumer([book], kafka.url).run(until_idle=1)
    new = Message(body=b"5", uuid="order-5")
    rows = records_of(kafka, spark).select(F.expr(recipe()).alias("uuid"), "value")
    driver: Any = spark
    another: DataFrame = driver.createDataFrame([(new.uuid, bytearray(b"5"))], rows.schema)

    service = book.foreach_batch(uuid="uuid", body="value", query="orders")
    service(rows.union(another), 0)

    [report] = service.reports
    assert (report.rows, report.new, report.duplicate) == (6, 1, 5)
    with connected(redis_url) as client:
        assert sorted(client.lrange("ran", 0, -1)) == [b"%d" % number for number in range(6)]
