"""The Kafka provider passes the conformance suite of providers, blocking and through asyncio."""

import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from confluent_kafka import Producer

from tests.fixtures.servers.kafka_server import KafkaServer
from triggers.providers.contract import ProviderContract
from triggers.providers.contract.common import SOON, arrivals, bodies, numbered
from triggers.providers.kafka.provider import Kafka
from triggers.providers.provider import Provider


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer() as server:
        yield server


class TestKafka(ProviderContract):
    asyncio = False
    counts = False
    delays = False
    refuses_same_name = False
    takes_over = False
    server: KafkaServer

    @pytest.fixture(autouse=True)
    def _server(self, kafka: KafkaServer) -> None:
        self.server = kafka

    def new_destination(self) -> str:
        """Return a topic of one partition: Kafka keeps no order between several."""
        topic = super().new_destination()
        self.server.create(topic, 1)
        return topic

    async def send_garbage(self, destination: str, count: int) -> None:
        # Kept: with its connection, this broker would end what members of share groups have.
        self.producer = producer = Producer({"bootstrap.servers": self.server.address, "log_level": 0})
        for _ in range(count):
            producer.produce(destination, b"{ cut off", headers=[("content-type", b"application/json")])
        assert producer.flush(30) == 0

    @pytest.fixture
    async def provider(self) -> AsyncIterator[Provider]:
        provider = Kafka.from_url(self.server.patient_url)
        provider = provider.for_asyncio() if self.asyncio else provider
        yield provider
        await provider.close()

    @pytest.fixture
    async def another(self) -> AsyncIterator[Provider]:
        provider = Kafka.from_url(self.server.patient_url)
        provider = provider.for_asyncio() if self.asyncio else provider
        yield provider
        await provider.close()


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

    @pytest.fixture
    async def provider(self) -> AsyncIterator[Provider]:
        provider = Kafka.from_url(self.server.share_url)
        provider = provider.for_asyncio() if self.asyncio else provider
        yield provider
        await provider.close()

    @pytest.fixture
    async def another(self) -> AsyncIterator[Provider]:
        provider = Kafka.from_url(self.server.share_url)
        provider = provider.for_asyncio() if self.asyncio else provider
        yield provider
        await provider.close()

    async def test_consumers_of_a_subscription_share(self, provider: Provider, another: Provider) -> None:
        """Counts aside: this broker gives a partition to one member, which leaves it to others when idle."""
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


@pytest.mark.prove  # this broker gives a partition to one member, so a second one waits for it in vain
class TestKafkaShareGroupThroughAsyncio(TestKafkaShareGroup):
    asyncio = True
