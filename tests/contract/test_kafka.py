"""The Kafka provider passes the conformance suite of providers, blocking and through asyncio."""

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.contract.opened import OpenedContract
from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_server import ApacheKafkaServer
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.waiting import PATIENCE
from triggers.providers.contract import ProviderContract
from triggers.providers.contract.common import SOON, arrivals, bodies, numbered
from triggers.providers.kafka import consumer, share, transactions
from triggers.providers.kafka.settings import producing
from triggers.providers.provider import Provider, Receiver


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer() as server:
        yield server


class TestKafka(OpenedContract, ProviderContract):
    counts = False
    delays = False
    refuses_same_name = False
    takes_over = False
    server: KafkaServer | ApacheKafkaServer

    @pytest.fixture(autouse=True)
    def _server(self, kafka: KafkaServer) -> None:
        self.server = kafka

    def new_destination(self) -> str:
        """Return a topic with one partition: Kafka does not keep the order between several partitions."""
        topic = super().new_destination()
        self.server.create(topic, 1)
        return topic

    async def send_garbage(self, destination: str, count: int) -> None:
        # Kept open: when its connection ends, this broker takes the messages of share group members away.
        self.producer = producer = Producer({"bootstrap.servers": self.server.address, "log_level": 0})
        for _ in range(count):
            producer.produce(destination, b"{ cut off", headers=[("content-type", b"application/json")])
        assert producer.flush(30) == 0

    @property
    def url(self) -> str:
        return self.server.patient_url


@pytest.mark.prove  # this broker takes ten seconds and more wherever a second consumer comes
class TestKafkaThroughAsyncio(TestKafka):
    asyncio = True


@pytest.fixture(scope="module")
def sharing_kafka() -> Iterator[KafkaServer]:
    with KafkaServer(brokers=2) as server:
        server.lock_for(600)
        yield server


class TestKafkaShareGroup(TestKafka):
    counts = True
    holds_nothing_up = False
    tells_backlog = False

    @pytest.fixture(autouse=True)
    def _server(self, sharing_kafka: KafkaServer) -> None:
        self.server = sharing_kafka

    @pytest.fixture(autouse=True)
    def _sent_as_one_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Send all as one batch: a member gets only one fetch before it has answered."""

        def lingering(*words: Any) -> dict[str, Any]:
            return producing(*words) | {"linger.ms": 100}

        monkeypatch.setattr(transactions, "producing", lingering)

    @pytest.fixture(autouse=True)
    def _waits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Wait shorter for a share: this broker gives a partition to one member, so a second never gets it.

        Wait longer for the end: on a busy machine, Kafka's client has taken more than 20 seconds to leave.
        """
        monkeypatch.setattr(share, "_SHARING", 5.0)
        monkeypatch.setattr(consumer, "LEAVING", PATIENCE)

    @property
    def url(self) -> str:
        return self.server.share_url

    async def test_consumers_of_a_subscription_share(self, provider: Provider, another: Provider) -> None:
        """Do not compare counts: this broker gives a partition to one member, which frees it when idle."""
        async with self.receiving(provider, name="a") as a, self.receiving(another, name="b") as b:
            await provider.send(self.destination, numbered(20))
            found: set[str] = set()
            deadline = time.monotonic() + SOON
            while len(found) < 20 and time.monotonic() < deadline:
                for receiver in (a, b):
                    got = arrivals(await receiver.receive(1, timedelta(milliseconds=50)))
                    await receiver.acknowledge(got)
                    found.update(bodies(got))

            assert found == {str(number) for number in range(20)}


@pytest.mark.prove  # this broker gives a partition to one member, so a second member never gets it
class TestKafkaShareGroupThroughAsyncio(TestKafkaShareGroup):
    asyncio = True


@APACHE_KAFKA
class TestApacheKafka(TestKafka):
    largest = 1_000_000  # a topic's own limit, less the headers

    @pytest.fixture(autouse=True)
    def _server(self, apache_kafka: ApacheKafkaServer) -> None:
        self.server = apache_kafka


@APACHE_KAFKA
@pytest.mark.prove
class TestApacheKafkaThroughAsyncio(TestApacheKafka):
    asyncio = True


@APACHE_KAFKA
@pytest.mark.prove
class TestApacheKafkaShareGroup(TestKafkaShareGroup):
    largest = 1_000_000
    apache_kafka: ApacheKafkaServer

    @pytest.fixture(autouse=True)
    def _server(self, apache_kafka: ApacheKafkaServer) -> None:
        self.server = self.apache_kafka = apache_kafka
        self.begun = set[str]()

    @pytest.fixture(autouse=True)
    def _impatient(self) -> None:
        """Wait as everybody does: each member gets partitions."""

    def new_destination(self) -> str:
        """Return a topic and prepare its group, so that a forked child need not ask the broker."""
        topic = super().new_destination()
        self._begin_with_the_oldest(f"{topic}:s")
        return topic

    def _begin_with_the_oldest(self, group: str) -> None:
        """Let a group get messages from before its first member: a member joins only at the first receive."""
        if group not in self.begun:
            self.begun.add(group)
            self.apache_kafka.set_group(group, share_auto_offset_reset="earliest")

    @asynccontextmanager
    async def receiving(
        self, provider: Provider, destination: str | None = None, *, subscription: str = "s", name: str = "a"
    ) -> AsyncGenerator[Receiver, None]:
        self._begin_with_the_oldest(f"{destination or self.destination}:{subscription}")
        async with super().receiving(provider, destination, subscription=subscription, name=name) as receiver:
            yield receiver


@APACHE_KAFKA
@pytest.mark.prove
class TestApacheKafkaShareGroupThroughAsyncio(TestApacheKafkaShareGroup):
    asyncio = True
