"""The RabbitMQ provider passes the conformance suite of providers, blocking and through asyncio."""

from collections.abc import AsyncIterator

import pytest

from triggers.providers.contract import ProviderContract
from triggers.providers.provider import Provider
from triggers.providers.rabbitmq import RabbitMQ

pytestmark = pytest.mark.xdist_group("rabbitmq")


class TestRabbitMQ(ProviderContract):
    asyncio = False
    delays = False
    refuses_same_name = False
    takes_over = False

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
