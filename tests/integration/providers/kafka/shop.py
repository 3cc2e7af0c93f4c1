"""A shop receives orders from a topic. Its bookings and the topic's offsets are in one database."""

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from confluent_kafka import Consumer as KafkaClient
from confluent_kafka import Producer, TopicPartition
from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.fixtures.servers.apache_kafka_cluster import ApacheKafkaCluster
from tests.fixtures.servers.apache_kafka_server import AnyKafka
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Lane, Running
from triggers import trigger
from triggers.consumer.options import AnyTrigger

#: Called with the number of an order, after its effect and before the commit.
Then = Callable[[int], object]

_BOOK = text("INSERT INTO booked VALUES (:number)")


@dataclass(frozen=True, slots=True)
class Shop:
    """Orders are numbers. In a partition that has all orders, offset n holds order n."""

    kafka: AnyKafka | ApacheKafkaCluster
    topic: str
    url: str
    engine: Engine

    @property
    def provider(self) -> str:
        """The provider's URL, with the offsets in the shop's database."""
        return f"{self.kafka.url}&offsets={quote(self.url, safe='')}"

    @property
    def group(self) -> str:
        """The group of the trigger :meth:`book`."""
        return f"{self.topic}:book"

    def place(self, orders: Sequence[int], **headers: bytes) -> None:
        """Send orders, each with a different key. Only ``headers`` can identify an order."""
        # Without this, an automatic retry of the producer would count as another order.
        once = {"enable.idempotence": True}
        producer = Producer({"bootstrap.servers": self.kafka.address, "log_level": 0} | once)
        for order in orders:
            producer.produce(self.topic, b"%d" % order, key=b"%d" % order, headers=[*headers.items()])
        assert producer.flush(30) == 0

    def book(self, lane: Lane, then: Then = lambda _: None, **options: Any) -> AnyTrigger:
        file = lane.folder / "parked.sqlite3"
        settings: dict[str, Any] = {"name": "book", "transacted": True, "prefetch": 1, **options}

        @trigger(self.topic, local_parking_file=file, **settings)
        def blocking(body: bytes, connection: Connection) -> None:
            connection.execute(_BOOK, {"number": int(body)})
            then(int(body))

        @trigger(self.topic, local_parking_file=file, **settings)
        async def asyncio(body: bytes, connection: AsyncConnection) -> None:
            await connection.execute(_BOOK, {"number": int(body)})
            then(int(body))

        return asyncio if lane.asyncio else blocking

    def run(self, lane: Lane, then: Then = lambda _: None, **options: Any) -> Running:
        return lane.run([self.book(lane, then, **options)], self.provider)

    def run_out(self, lane: Lane, then: Then = lambda _: None, **options: Any) -> dict[str, int]:
        """Book until no message is left, and return the counts of the outcomes."""
        counts = Counter[str]()

        def run() -> bool:
            consumer = lane.run([self.book(lane, then, **options)], self.provider, until_idle=0.5)
            with consumer:
                consumer.join()
            counts.update(consumer.counts["book"])
            return self.left == 0

        eventually(run)
        return dict(counts)

    @property
    def left(self) -> int:
        """The number of messages that the rows do not show as settled."""
        client = KafkaClient({"bootstrap.servers": self.kafka.address, "group.id": "counting"})
        partitions = client.list_topics(self.topic, timeout=30).topics[self.topic].partitions
        ends = [client.get_watermark_offsets(TopicPartition(self.topic, one), 30)[1] for one in partitions]
        client.close()
        return sum(ends) - sum(next_offset for next_offset, _ in self.rows)

    @property
    def booked(self) -> list[int]:
        """The numbers of the orders that are booked, in order."""
        return [int(number) for (number,) in self.ask("SELECT number FROM booked ORDER BY number")]

    @property
    def rows(self) -> list[tuple[int, str]]:
        """The positions in the rows, in the order of their partitions."""
        if not inspect(self.engine).has_table("doubtless_offsets"):
            return []
        found = self.ask("SELECT next_offset, settled_beyond FROM doubtless_offsets ORDER BY number")
        return [(int(row.next_offset), str(row.settled_beyond)) for row in found]

    @property
    def entries(self) -> int:
        ((count,),) = self.ask("SELECT COUNT(*) FROM doubtless_history WHERE trigger_name > ''")
        return int(count)

    def ask(self, question: str) -> Sequence[Any]:
        with self.engine.connect() as connection:
            return connection.execute(text(question)).all()

    def change(self, statement: str, **values: object) -> None:
        with self.engine.begin() as connection:
            connection.execute(text(statement), values)

    def commit_to_kafka(self, offset: int) -> None:
        """Commit an offset of the first partition for the group. In this mock only a member may do that."""
        settings = {"enable.auto.commit": False, "partition.assignment.strategy": "cooperative-sticky"}
        known = {"bootstrap.servers": self.kafka.address, "group.id": self.group, "session.timeout.ms": 4000}
        client = KafkaClient(known | settings)
        client.subscribe([self.topic])
        eventually(lambda: client.poll(0.1) is not None or client.assignment())
        client.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)
        client.close()

    @property
    def committed(self) -> int:
        """The offset of the first partition that the group has committed to Kafka."""
        client = KafkaClient({"bootstrap.servers": self.kafka.address, "group.id": self.group})
        (found,) = client.committed([TopicPartition(self.topic, 0)], 30)
        client.close()
        return int(found.offset)


@contextmanager
def opened(
    kafka: AnyKafka | ApacheKafkaCluster, topic: str, url: str, *, partitions: int = 1
) -> Generator[Shop]:
    kafka.create(topic, partitions)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    shop = Shop(kafka, topic, url, engine)
    shop.change("CREATE TABLE booked (number INTEGER)")
    yield shop
    engine.dispose()
