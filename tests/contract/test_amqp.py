"""The AMQP 1.0 provider passes the conformance suite of providers, blocking and through asyncio."""

from collections.abc import AsyncIterator

import pytest

from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.hostile import over_amqp
from triggers.providers.amqp.provider import Amqp
from triggers.providers.contract import ProviderContract
from triggers.providers.provider import Provider
from triggers.providers.rabbitmq.settings import queue_of

pytestmark = pytest.mark.xdist_group("rabbitmq")


class TestAmqp(ProviderContract):
    asyncio = False
    # RabbitMQ says of everything in a quorum queue that it is durable.
    assigned = frozenset({"persistent"})
    # RabbitMQ says of what expired into a queue that somebody acquired it before.
    marks_later = True
    refuses_same_name = False
    takes_over = False
    names_deliveries = False
    server: RabbitmqServer

    @pytest.fixture(autouse=True)
    def _server(self, rabbitmq4_server: RabbitmqServer) -> None:
        self.server = rabbitmq4_server

    async def send_garbage(self, destination: str, count: int) -> None:
        garbage = over_amqp.in_charset("undefined")
        over_amqp.send(self.server, queue_of(destination, "s"), [garbage] * count)

    @pytest.fixture
    async def provider(self, amqp_url: str) -> AsyncIterator[Provider]:
        provider = Amqp.from_url(amqp_url)
        provider = provider.for_asyncio() if self.asyncio else provider
        yield provider
        await provider.close()

    @pytest.fixture
    async def another(self, amqp_url: str) -> AsyncIterator[Provider]:
        provider = Amqp.from_url(amqp_url)
        provider = provider.for_asyncio() if self.asyncio else provider
        yield provider
        await provider.close()


class TestAmqpThroughAsyncio(TestAmqp):
    asyncio = True
