"""Only a real broker has compacted topics, tombstones and aborted transactions."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import Producer as RawProducer
from confluent_kafka import TopicPartition
from sqlalchemy import Connection

from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_server import ApacheKafkaServer
from tests.fixtures.servers.kafka_raw import produce_raw
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import parked_in
from triggers import Consumer, Message, Producer, trigger
from triggers.consumer.options import AnyTrigger

pytestmark = APACHE_KAFKA

#: Compact a topic as soon as its messages are older than this moment.
COMPACTED = {"cleanup_policy": "compact", "segment_ms": "50", "min_cleanable_dirty_ratio": "0.01"}

#: Runs a trigger until no message is left, and returns the runs.
RunOut = Callable[[], list[Message]]


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid4().hex[:8]}"


@pytest.fixture(params=["entries", "offsets"])
def run_out(
    request: pytest.FixtureRequest, apache_kafka: ApacheKafkaServer, topic: str, tmp_path: Path
) -> RunOut:
    database, url = f"sqlite:///{tmp_path}/shop.sqlite3", apache_kafka.patient_url
    ran: list[Message] = []

    @trigger(topic, name="book")
    def book(message: Message) -> None:
        ran.append(message)

    @trigger(topic, name="book", transacted=True)
    def book_atomically(message: Message, connection: Connection) -> None:
        ran.append(message)

    def run(booking: AnyTrigger, provider: str, history: str | None) -> list[Message]:
        ran.clear()
        Consumer([booking], provider, history=history).run(until_idle=0.5)
        return list(ran)

    if request.param == "offsets":
        return lambda: run(book_atomically, f"{url}&offsets={quote(database, safe='')}", None)
    return lambda: run(book, url, database)


def produce(server: ApacheKafkaServer, topic: str, *records: tuple[str, str | None]) -> None:
    """Send records of these keys and values."""
    producer = RawProducer({"bootstrap.servers": server.address, "log_level": 0})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def offsets_in(server: ApacheKafkaServer, topic: str) -> Sequence[int]:
    settings = {"bootstrap.servers": server.address, "group.id": uuid4().hex, "enable.partition.eof": True}
    consumer = RawConsumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append(message.offset() or 0)
    consumer.close()
    return found


def compact(server: ApacheKafkaServer, topic: str, *gone: int) -> None:
    """Send until the brokers have begun new segments and dropped these offsets from the old segments."""

    def is_compacted() -> bool:
        produce(server, topic, ("later", "later"))
        return not set(gone) & set(offsets_in(server, topic))

    eventually(is_compacted)


def test_a_compacted_topic_runs_the_last_message_of_each_key_and_its_tombstones(
    apache_kafka: ApacheKafkaServer, topic: str, run_out: RunOut, caplog: pytest.LogCaptureFixture
) -> None:
    apache_kafka.create(topic, 1, 1, **COMPACTED)
    produce(apache_kafka, topic, ("one", "1"))
    [first] = run_out()
    produce(apache_kafka, topic, ("two", "2"), ("one", "3"), ("two", None), ("three", "4"), ("three", "5"))
    compact(apache_kafka, topic, 0, 1, 4)

    ran = [message for message in run_out() if message.group_id != "later"]

    assert first.body == b"1"
    assert [(one.group_id, one.body, "kafka_tombstone" in one.properties) for one in ran] == [
        ("one", b"3", False),
        ("two", b"", True),
        ("three", b"5", False),
    ]
    assert run_out() == []
    assert apache_kafka.depth(topic, f"{topic}:book") == 0
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_messages_of_a_transaction_that_is_aborted_or_open_never_run(
    apache_kafka: ApacheKafkaServer, topic: str, run_out: RunOut
) -> None:
    apache_kafka.create(topic, 1)
    settings = {"bootstrap.servers": apache_kafka.address, "transactional.id": topic, "log_level": 0}
    producer = RawProducer(settings)
    producer.init_transactions()

    def begin(*bodies: str) -> None:
        producer.begin_transaction()
        for body in bodies:
            producer.produce(topic, body)
        assert producer.flush(30) == 0

    begin("aborted", "aborted")
    producer.abort_transaction()
    begin("one", "two")
    producer.commit_transaction()
    begin("open")

    assert [message.body for message in run_out()] == [b"one", b"two"]

    producer.abort_transaction()
    produce(apache_kafka, topic, ("key", "after"))
    assert [message.body for message in run_out()] == [b"after"]


@pytest.mark.parametrize("options", ["heartbeat=12", "share=true"])
def test_a_record_whose_headers_the_client_cannot_read_is_parked_and_others_run(
    apache_kafka: ApacheKafkaServer, topic: str, options: str, tmp_path: Path
) -> None:
    apache_kafka.create(topic, 1)
    apache_kafka.set_group(f"{topic}:book", share_auto_offset_reset="earliest")
    produce_raw(apache_kafka.address, topic, b"unreadable", [(b"\xff", b"x")])
    produce_raw(apache_kafka.address, topic, b"readable", [(b"a", b"x")])
    history, ran = f"sqlite:///{tmp_path}/shop.sqlite3", list[object]()

    @trigger(topic, name="book", max_delivery_count=4)
    def book(message: Message) -> None:
        ran.append(message.body)

    Consumer([book], f"kafka://{apache_kafka.address}?{options}", history=history).run(until_idle=0.5)

    (parked,) = parked_in(history, "book")
    assert (ran, parked.raw and parked.raw["body"]) == ([b"readable"], "unreadable")


def test_a_message_is_as_large_as_its_topic_allows(apache_kafka: ApacheKafkaServer, topic: str) -> None:
    apache_kafka.create(topic, 1, 1, max_message_bytes="30000000")

    with Producer(apache_kafka.url) as producer:
        producer.send(topic, bytes(20_000_000))

    assert offsets_in(apache_kafka, topic) == [0]
