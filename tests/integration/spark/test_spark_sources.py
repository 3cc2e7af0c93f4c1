"""A Redis stream as a source of a Spark stream: the same offsets are the same rows, and nothing vanishes."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from history import ConfigurationError, Message
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.spark import SPARK_EDGES
from tests.integration.helpers.available_now import run
from tests.integration.helpers.orders import Send, orders
from triggers.spark.sources import RedisStreamSource


@pytest.fixture
def stream(spark: SparkSession, redis_url: str) -> Callable[..., DataFrame]:
    """Return a function that loads the stream ``orders`` with some options."""
    spark.dataSource.register(RedisStreamSource)

    def load(**options: str) -> DataFrame:
        told = {"url": redis_url, "destination": "orders"} | options
        return spark.readStream.format("redis_streams").options(**told).load()

    return load


@SPARK_EDGES
@pytest.mark.prove
def test_a_query_reads_in_batches_and_goes_on_where_it_stopped(
    stream: Callable[..., DataFrame], send: Send, tmp_path: Path
) -> None:
    batches: dict[int, list[str]] = {}
    parts: list[int] = []

    def note(batch: DataFrame, batch_id: int) -> None:
        if batch_id == 1 and 1 not in batches:
            batches[1] = []
            message = "the driver dies"
            raise RuntimeError(message)
        seen = sorted(row.uuid for row in batch.select("uuid").collect())
        assert batches.get(batch_id, []) in ([], seen)
        batches[batch_id] = seen
        parts.append(batch.rdd.getNumPartitions())

    limited = stream(maxRowsPerBatch="20", maxRowsPerPartition="8")
    send(orders(30))
    with pytest.raises(StreamingQueryException, match="the driver dies"):
        run(limited, tmp_path, note)
    send(orders(20, first=30))
    run(limited, tmp_path, note)

    names = [f"order-{number}" for number in range(50)]
    assert batches == {0: sorted(names[:20]), 1: sorted(names[20:30]), 2: sorted(names[30:])}
    assert parts == [3, 2, 3]


@SPARK_EDGES
@pytest.mark.prove
def test_a_message_is_a_row_with_all_it_had(
    spark: SparkSession, stream: Callable[..., DataFrame], send: Send, redis_url: str
) -> None:
    told = Message(
        body="héllo",
        uuid="u-1",
        message_id="ID:1",
        persistent=False,
        correlation_id="c",
        type="order",
        reply_to="answers",
        priority=7,
        timestamp=datetime(2026, 1, 2, tzinfo=UTC),
        expiration=datetime(2126, 1, 2, tzinfo=UTC),
        group_id="g",
        group_sequence=5,
        properties={"shop": "Lyon", "weight": 2.5, "gift": True, "note": None},
    )
    send([told, Message(body=b"\xff", uuid="bytes"), Message(body={"id": 1})])
    send([Message(body="", uuid="far", group_sequence=2**70)])
    with connected(redis_url) as client:
        client.xadd("orders", {"uuid": "odd", "body": "", "properties": r'{"emoji": "\ud83d"}'})
        client.xadd("orders", {"nobody": b"\xff"})
    stream()  # registers the source

    table = spark.read.format("redis_streams").options(url=redis_url, destination="orders").load()
    first, second, third, *bad = table.collect()

    assert first.asDict() == {
        "offset": first.offset,
        "uuid": "u-1",
        "JMSMessageID": "ID:1",
        "JMSXDeliveryCount": -1,
        "JMSRedelivered": False,
        "JMSDeliveryMode": 1,
        "JMSPriority": 7,
        "JMSTimestamp": datetime(2026, 1, 2),  # noqa: DTZ001  (Spark gives naive instants)
        "JMSExpiration": datetime(2126, 1, 2),  # noqa: DTZ001  (as above)
        "JMSDeliveryTime": None,
        "JMSCorrelationID": "c",
        "JMSType": "order",
        "JMSDestination": "orders",
        "JMSReplyTo": "answers",
        "JMSXGroupID": "g",
        "JMSXGroupSeq": 5,
        "properties": {"shop": "Lyon", "weight": "2.5", "gift": "true", "note": None, "uuid": "u-1"},
        "body": "héllo".encode(),
        "body_kind": "text",
        "unreadable": None,
        "raw": None,
    }
    assert (second.body, second.body_kind) == (b"\xff", "bytes")
    assert (third.uuid, third.body) == (f"ID:orders:{third.offset}", b'{"id":1}')
    assert [row.raw["uuid"] for row in bad[:2]] == ["far", "odd"]
    assert [row.raw for row in bad[2:]] == [{"nobody": "base64:/w=="}]
    assert all(row.unreadable and row.uuid is row.JMSMessageID is row.body is None for row in bad)


@SPARK_EDGES
@pytest.mark.prove
def test_bodies_may_be_text_and_what_is_none_is_unreadable(
    spark: SparkSession, stream: Callable[..., DataFrame], send: Send, redis_url: str
) -> None:
    send(
        [Message(body={"id": 1}, uuid="a"), Message(body=b"plain", uuid="b"), Message(body=b"\xff", uuid="c")]
    )
    stream()  # registers the source

    reader = spark.read.format("redis_streams").options(url=redis_url, destination="orders", body="string")
    rows: list[Row] = reader.load().collect()

    assert [row.body for row in rows] == ['{"id":1}', "plain", None]
    assert rows[2].unreadable.startswith("body: is no UTF-8")
    assert rows[2].raw["body"] == "base64:/w=="


@SPARK_EDGES
@pytest.mark.prove
def test_a_query_whose_entries_were_trimmed_fails_and_says_why(
    stream: Callable[..., DataFrame], send: Send, redis_url: str, tmp_path: Path
) -> None:
    counts: list[int] = []
    send(orders(5))
    run(stream(), tmp_path, lambda batch, _: counts.append(batch.count()))
    send(orders(5, first=5))
    with connected(redis_url) as client:
        client.xtrim("orders", maxlen=2, approximate=False)

    with pytest.raises(StreamingQueryException, match=r"3 entries after .* were deleted"):
        run(stream(), tmp_path, lambda batch, _: counts.append(batch.count()))
    run(stream(failOnDataLoss="false"), tmp_path, lambda batch, _: counts.append(batch.count()))

    assert counts == [5, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"destination": ""}, "has no destination"),
        ({"body": "json"}, "give binary or string"),
        ({"maxRowsPerBatch": "0"}, "a whole number of 1 or more"),
        ({"patience": "soon"}, "give seconds"),
        ({"failOnDataLoss": "maybe"}, "give true or false"),
        ({"startingOffset": "latest"}, "has no option startingOffset;"),
        ({"url": "http://x"}, "use redis://host:6379/0"),
    ],
    ids=["destination", "body", "rows", "patience", "loss", "slip of the pen", "url"],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], words: str) -> None:
    told = {"url": "redis://127.0.0.1", "destination": "orders"} | options

    with pytest.raises(ConfigurationError, match=words):
        drive_log(RedisStreamSource(told))


def drive_log(source: RedisStreamSource) -> None:
    source.schema()
    source.log().begin()


@SPARK_EDGES
@pytest.mark.prove
def test_a_mistake_is_told_by_spark(stream: Callable[..., DataFrame]) -> None:
    with pytest.raises(PySparkException, match=r"has no option startingoffset; .* startingOffsets"):
        stream(startingOffset="latest")
