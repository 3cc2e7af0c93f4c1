"""The RabbitMQ provider passes the conformance suite of providers, blocking and through asyncio."""

from collections.abc import AsyncIterator

import pytest

from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.hostile import over_rabbitmq
from triggers.providers.contract import ProviderContract
from triggers.providers.provider import Provider
from triggers.providers.rabbitmq.provider import RabbitMQ
from triggers.providers.rabbitmq.settings import queue_of

pytestmark = pytest.mark.xdist_group("rabbitmq")


class TestRabbitMQ(ProviderContract):
    asyncio = False
    refuses_same_name = False
    takes_over = False
    names_deliveries = False
    server: RabbitmqServer

    @pytest.fixture(autouse=True)
    def _server(self, rabbitmq_server: RabbitmqServer) -> None:
        self.server = rabbitmq_server

    async def send_garbage(self, destination: str, count: int) -> None:
        over_rabbitmq.send(self.server, queue_of(destination, "s"), [over_rabbitmq.LATE] * count)

    @pytest.fixture
    async def provider(self, rabbitmq_url: str) -> AsyncIterator[Provider]:
        provider = RabbitMQ.from_url(rabbitmq_url)
        provider = provider.for_asyncio() if self.asyncio else provider
        yield provider
        await provider.close()

    @pytest.fixture
    async def another(self, rabbitmq_url: str) -> AsyncIterator[Provider]:
        provider = RabbitMQ.from_url(rabbitmq_url)
        provider = provider.for_asyncio() if self.asyncio else provider
        yield provider
        await provider.close()


class TestRabbitMQThroughAsyncio(TestRabbitMQ):
    asyncio = True
