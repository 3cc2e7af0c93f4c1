"""The Kafka provider passes the conformance suite of providers, blocking and through asyncio."""

from collections.abc import AsyncIterator, Iterator

import pytest
from confluent_kafka import Producer

from tests.fixtures.servers.kafka_server import KafkaServer
from triggers.providers.contract import ProviderContract
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
        producer = Producer({"bootstrap.servers": self.server.address})
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
