"""The first offset of a consumer group, and its errors if its topic or its offsets have changed."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer as Member
from confluent_kafka import Producer, TopicPartition
from confluent_kafka import Producer as RawProducer
from sqlalchemy import Connection, create_engine, text

from history import MemoryHistory
from history.bridge import drive
from tests.fixtures.servers.apache_kafka_server import AnyKafka
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import Consumer, Message, trigger
from triggers.consumer.options import AnyTrigger
from triggers.providers.kafka.provider import Kafka
from triggers.providers.provider import Arrival, Receiver


@pytest.fixture
def topic(kafka: AnyKafka) -> str:
    name = f"orders-{uuid4().hex[:8]}"
    kafka.create(name, 2)
    return name


@pytest.fixture
def late(kafka: AnyKafka, topic: str) -> Iterator[Callable[[], Receiver]]:
    """Return a function that joins a group, which begins with the newest message."""
    provider = Kafka.from_url(f"{kafka.url}&group={topic}&start=latest")
    yield lambda: drive(provider.open_receiver(topic, subscription="book", name="a"))
    drive(provider.close())


def produce(server: AnyKafka, topic: str, *bodies: bytes, partition: int = 0) -> None:
    """Send like a program that does not know doubtless."""
    producer = RawProducer({"bootstrap.servers": server.address, "log_level": 0})
    for body in bodies:
        producer.produce(topic, body, partition=partition)
    assert producer.flush(PATIENCE) == 0


def taken(receiver: Receiver, count: int) -> list[object]:
    """Receive so many messages, and acknowledge them."""
    bodies: list[object] = []

    def are_all_there() -> bool:
        received = drive(receiver.receive(10, timedelta(milliseconds=200)))
        bodies.extend(one.message.body for one in received if isinstance(one, Arrival))
        drive(receiver.acknowledge(received))
        return len(bodies) >= count

    eventually(are_all_there)
    return bodies


def commit(server: AnyKafka, topic: str, offset: int) -> None:
    """Commit an offset of the first partition for the group with the topic's name."""
    member = Member({"bootstrap.servers": server.address, "group.id": topic, "log_level": 0})
    member.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    member.close()


def test_a_group_that_begins_with_the_newest_message_gets_what_is_sent_while_it_is_away(
    kafka: AnyKafka, topic: str, late: Callable[[], Receiver]
) -> None:
    produce(kafka, topic, b"old")  # the other partition is empty
    drive(late().close())
    produce(kafka, topic, b"new")
    produce(kafka, topic, b"newer", partition=1)

    receiver = late()
    bodies = taken(receiver, 2)
    drive(receiver.close())

    assert sorted(map(str, bodies)) == ["b'new'", "b'newer'"]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_what_retention_has_deleted_is_told_and_the_rest_is_received(
    kafka: AnyKafka, topic: str, start: str, caplog: pytest.LogCaptureFixture
) -> None:
    produce(kafka, topic, b"read")
    commit(kafka, topic, 1)
    produce(kafka, topic, *[bytes(500_000)] * 16)
    kafka.expire(topic)
    provider = Kafka.from_url(f"{kafka.url}&group={topic}&start={start}")

    receiver = drive(provider.open_receiver(topic, subscription="book", name="a"))
    taken(receiver, 1)
    drive(receiver.close())
    drive(provider.close())

    told = re.search(r":0: (\d+) messages before offset (\d+) were not run", caplog.text)
    assert told is not None
    lost, begins = int(told[1]), int(told[2])
    assert (lost > 0, begins) == (True, 1 + lost)


def test_a_log_that_goes_back_is_read_from_there_and_what_comes_later_is_not_skipped(
    kafka: AnyKafka, topic: str, late: Callable[[], Receiver], caplog: pytest.LogCaptureFixture
) -> None:
    commit(kafka, topic, 5)  # an offset that no longer exists
    produce(kafka, topic, b"0", b"1")

    receiver = late()
    before = taken(receiver, 2)
    drive(receiver.close())
    produce(kafka, topic, *(b"%d" % number for number in range(2, 8)))
    receiver = late()
    after = taken(receiver, 6)
    drive(receiver.close())

    assert before + after == [b"%d" % number for number in range(8)]
    assert caplog.text.count("goes back to offset 0, after 5 messages were settled") == 1


def ran_until_idle(server: KafkaServer, history: MemoryHistory) -> list[object]:
    """Return the messages of a consumer that ends at the first moment without a message."""
    ran: list[object] = []

    @trigger("orders", name="book", history=history)
    def book(message: Message) -> None:
        ran.append(message.body)

    Consumer([book], server.url).run(until_idle=0.01)
    return ran


def test_records_of_another_cluster_are_no_duplicates_of_those_in_their_places() -> None:
    ran: list[object] = []
    history = MemoryHistory()
    for body in (b"before", b"after"):
        with KafkaServer() as server:
            produce(server, "orders", body)
            ran += ran_until_idle(server, history)

    assert ran == [b"before", b"after"]


def test_no_queue_looks_empty_before_a_slow_broker_has_answered() -> None:
    with KafkaServer() as server:
        produce(server, "orders", b"order")
        server.answer_after(0.5)

        assert ran_until_idle(server, MemoryHistory()) == [b"order"]


def test_a_consumer_of_an_empty_topic_ends_when_its_partitions_have_said_so() -> None:
    with KafkaServer() as server:
        server.create("orders", 3)

        assert ran_until_idle(server, MemoryHistory()) == []


ORDERS = 20


def test_a_group_that_begins_at_the_oldest_message_again_has_no_second_effect(
    kafka: AnyKafka, tmp_path: Path
) -> None:
    """A second group has no offsets, like a group after its offsets were reset or its brokers restored."""
    topic, history = f"orders-{uuid4().hex[:8]}", f"sqlite:///{tmp_path}/orders.sqlite3"
    kafka.create(topic, 2)
    engine = create_engine(history)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE booked (number TEXT)"))

    @trigger(topic, name="book", transacted=True)
    def book(body: bytes, connection: Connection) -> None:
        connection.execute(text("INSERT INTO booked VALUES (:number)"), {"number": body.decode()})

    # These records have no identity, so each is identified by its topic, partition and offset.
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for number in range(ORDERS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0

    counts = [run(book, f"{kafka.patient_url}&group={topic}-{name}", history) for name in ("first", "again")]

    with engine.connect() as connection:
        booked = [int(row.number) for row in connection.execute(text("SELECT number FROM booked"))]
    engine.dispose()
    assert sorted(booked) == list(range(ORDERS))
    assert counts == [{"ok": ORDERS}, {"duplicate": ORDERS}]


def run(book: AnyTrigger, provider: str, history: str) -> dict[str, int]:
    """Run a consumer until no message is left, and return the counts of the outcomes."""
    consumer = Consumer([book], provider, history=history)
    consumer.run(until_idle=0.5)
    return dict(consumer.counts["book"])
