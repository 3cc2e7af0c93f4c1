"""The NATS provider passes the conformance suite of providers, blocking and through asyncio."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.fixtures.servers.nats_server import NatsServer
from triggers.providers.contract import ProviderContract
from triggers.providers.nats.driver import driver
from triggers.providers.nats.provider import Nats
from triggers.providers.provider import Provider


@pytest.fixture(scope="module")
def nats_server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


class TestNats(ProviderContract):
    asyncio = False
    refuses_same_name = False
    takes_over = False
    server: NatsServer

    @pytest.fixture(autouse=True)
    def _server(self, nats_server: NatsServer) -> None:
        self.server = nats_server

    def provider_of(self) -> Nats:
        provider = Nats.from_url(f"nats://{self.server.address}?first_count=as_told")
        return provider.for_asyncio() if self.asyncio else provider

    async def send_garbage(self, destination: str, count: int) -> None:
        client = await driver.connect(f"nats://{self.server.address}")
        for _ in range(count):
            sent = client.jetstream()
            await sent.publish(destination, b"{ cut off", headers={"Content-Type": "application/json"})
        await client.close()

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


@pytest.mark.prove
class TestNatsThroughAsyncio(TestNats):
    asyncio = True
