"""The SQS provider passes the conformance suite of providers, blocking and through asyncio, against moto."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import ClassVar

import pytest

from tests.fixtures.servers.sqs_server import SqsServer
from triggers.providers.contract import ProviderContract
from triggers.providers.provider import Provider
from triggers.providers.sqs.provider import Sqs


@pytest.mark.prove  # moto takes its time
class TestSqs(ProviderContract):
    asyncio = False
    counts = False
    delay: ClassVar[timedelta] = timedelta(seconds=1)
    largest: ClassVar[int] = 200_000
    refuses_same_name = False
    subscribes = False
    takes_over = False
    server: SqsServer

    @pytest.fixture(autouse=True)
    def _server(self, sqs_server: SqsServer) -> None:
        self.server = sqs_server

    def dead_letters_of(self, destination: str) -> str:
        return f"DLQ-{destination}"

    def provider_of(self) -> Sqs:
        provider = Sqs.from_url(f"sqs://eu-west-1?endpoint={self.server.address}&visibility=600")
        return provider.for_asyncio() if self.asyncio else provider

    async def send_garbage(self, destination: str, count: int) -> None:
        client = self.server.client()
        address = client.get_queue_url(QueueName=destination)["QueueUrl"]
        attributes = {"content-type": {"DataType": "String", "StringValue": "application/json"}}
        for _ in range(count):
            client.send_message(QueueUrl=address, MessageBody="{ cut off", MessageAttributes=attributes)

    @pytest.fixture
    async def provider(self) -> AsyncIterator[Provider]:
        provider = self.provider_of()
        yield provider
        await provider.close()

    @pytest.fixture
    async def another(self) -> AsyncIterator[Provider]:
        provider = self.provider_of()
        yield provider
        await provider.close()


class TestSqsThroughAsyncio(TestSqs):
    asyncio = True
