"""An atomic trigger on Kafka: what the group forgets is remembered in the database of the effects."""

from pathlib import Path
from uuid import uuid4

from confluent_kafka import Producer
from sqlalchemy import Connection, create_engine, text

from tests.fixtures.servers.apache_kafka_server import AnyKafka
from triggers import Consumer, trigger
from triggers.consumer.options import AnyTrigger

ORDERS = 20


def test_a_group_that_begins_at_the_oldest_message_again_has_no_second_effect(
    kafka: AnyKafka, tmp_path: Path
) -> None:
    """Another group stands for one whose offsets were reset, or whose brokers were restored."""
    topic, history = f"orders-{uuid4().hex[:8]}", f"sqlite:///{tmp_path}/orders.sqlite3"
    kafka.create(topic, 2)
    engine = create_engine(history)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE booked (number TEXT)"))

    @trigger(topic, name="book", transacted=True)
    def book(body: bytes, connection: Connection) -> None:
        connection.execute(text("INSERT INTO booked VALUES (:number)"), {"number": body.decode()})

    # Nothing in these records names them, so each is known by its topic, partition and offset.
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
    """Run a consumer until nothing is left, and return what became of the messages."""
    consumer = Consumer([book], provider, history=history)
    consumer.run(until_idle=0.5)
    return dict(consumer.counts["book"])
