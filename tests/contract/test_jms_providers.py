"""The JMS provider passes the conformance suite on a real ActiveMQ, blocking and through asyncio."""

from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.hostile import over_jms
from triggers.providers.contract import ProviderContract
from triggers.providers.contract.answering import AnsweringContract
from triggers.providers.contract.common import ContractTools
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider

pytestmark = ACTIVEMQ

#: The count as ActiveMQ tells it, so that the suite can see that it counts.
TOLD = "&first_count=as_told"


class OnActiveMq(ContractTools):
    assigned: ClassVar[frozenset[str]] = frozenset({"message_id", "timestamp", "expiration", "destination"})
    delays: ClassVar[bool] = False
    tells_backlog: ClassVar[bool] = False
    refuses_same_name: ClassVar[bool] = False
    survives_forks: ClassVar[bool | None] = False
    subscribes: ClassVar[bool] = False
    takes_over: ClassVar[bool] = False

    settings: ClassVar[str] = TOLD
    server: ActiveMqServer

    @pytest.fixture(autouse=True)
    def _server(self, activemq: ActiveMqServer) -> None:
        self.server = activemq

    async def send_garbage(self, destination: str, count: int) -> None:
        over_jms.send(self.server.url, destination, [over_jms.text_of_no_unicode] * count)

    @pytest.fixture
    async def provider(self, activemq: ActiveMqServer) -> AsyncIterator[Provider]:
        provider = self.opened(activemq)
        yield provider
        await provider.close()

    @pytest.fixture
    async def another(self, activemq: ActiveMqServer) -> AsyncIterator[Provider]:
        provider = self.opened(activemq)
        yield provider
        await provider.close()

    def opened(self, activemq: ActiveMqServer) -> Provider:
        return open_provider(activemq.url + self.settings)


class TestJms(OnActiveMq, ProviderContract):
    pass


class TestJmsThroughAsyncio(OnActiveMq, ProviderContract):
    def opened(self, activemq: ActiveMqServer) -> Provider:
        return super().opened(activemq).for_asyncio()


class TestJmsInTransactions(OnActiveMq, AnsweringContract):
    settings: ClassVar[str] = f"{TOLD}&session=transacted"
