"""The providers of brokers pass the conformance suite on real servers, blocking and through asyncio."""

from collections.abc import Iterator
from datetime import timedelta
from typing import ClassVar

import pytest

from tests.contract.opened import OpenedContract
from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.fixtures.servers.artemis import ARTEMIS
from tests.fixtures.servers.artemis_server import ArtemisServer
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.servers.sqs_server import SqsServer
from tests.hostile import over_amqp, over_jms, over_rabbitmq
from triggers.providers.contract import ProviderContract
from triggers.providers.contract.answering import AnsweringContract
from triggers.providers.nats.connection import driver
from triggers.providers.rabbitmq.settings import queue_of

RABBITMQ = pytest.mark.xdist_group("rabbitmq")


@RABBITMQ
class TestAmqp(OpenedContract, ProviderContract):
    # RabbitMQ marks every message in a quorum queue as durable.
    assigned = frozenset({"persistent"})
    # When a message expires into a queue, RabbitMQ says that it was acquired before.
    marks_later = True
    refuses_same_name = False
    takes_over = False
    names_deliveries = False
    server: RabbitmqServer

    @pytest.fixture(autouse=True)
    def _server(self, rabbitmq4_server: RabbitmqServer) -> None:
        self.server = rabbitmq4_server

    @property
    def url(self) -> str:
        return f"amqp://{self.server.address}/"

    async def send_garbage(self, destination: str, count: int) -> None:
        garbage = over_amqp.in_charset("undefined")
        over_amqp.send(self.server, queue_of(destination, "s"), [garbage] * count)


class TestAmqpThroughAsyncio(TestAmqp):
    asyncio = True


@RABBITMQ
class TestRabbitMQ(OpenedContract, ProviderContract):
    refuses_same_name = False
    takes_over = False
    names_deliveries = False
    server: RabbitmqServer

    @pytest.fixture(autouse=True)
    def _server(self, rabbitmq_server: RabbitmqServer) -> None:
        self.server = rabbitmq_server

    @property
    def url(self) -> str:
        return f"rabbitmq://{self.server.address}/"

    async def send_garbage(self, destination: str, count: int) -> None:
        over_rabbitmq.send(self.server, queue_of(destination, "s"), [over_rabbitmq.LATE] * count)


class TestRabbitMQThroughAsyncio(TestRabbitMQ):
    asyncio = True


class OnActiveMq(OpenedContract):
    assigned: ClassVar[frozenset[str]] = frozenset({"message_id", "timestamp", "expiration", "destination"})
    delays: ClassVar[bool] = False
    tells_backlog: ClassVar[bool] = False
    refuses_same_name: ClassVar[bool] = False
    survives_forks: ClassVar[bool | None] = False
    subscribes: ClassVar[bool] = False
    takes_over: ClassVar[bool] = False

    # The count that ActiveMQ gives, so that the suite can see it grow.
    settings: ClassVar[str] = "&first_count=as_told"
    server: ActiveMqServer | ArtemisServer

    @pytest.fixture(autouse=True)
    def _server(self, activemq: ActiveMqServer) -> None:
        self.server = activemq

    @property
    def url(self) -> str:
        return self.server.url + self.settings

    async def send_garbage(self, destination: str, count: int) -> None:
        over_jms.send(self.server.url, destination, [over_jms.text_of_no_unicode] * count)


@ACTIVEMQ
class TestJms(OnActiveMq, ProviderContract):
    pass


@ACTIVEMQ
class TestJmsThroughAsyncio(OnActiveMq, ProviderContract):
    asyncio = True


@ACTIVEMQ
class TestJmsInTransactions(OnActiveMq, AnsweringContract):
    settings: ClassVar[str] = f"{OnActiveMq.settings}&session=transacted"


class OnArtemis(OnActiveMq):
    @pytest.fixture(autouse=True)
    def _server(self, artemis: ArtemisServer) -> None:
        self.server = artemis

    async def send_garbage(self, destination: str, count: int) -> None:
        over_jms.send(self.server.url, destination, [over_jms.an_object] * count)


@ARTEMIS
class TestJmsOnArtemis(OnArtemis, ProviderContract):
    pass


@ARTEMIS
@pytest.mark.prove
class TestJmsOnArtemisThroughAsyncio(OnArtemis, ProviderContract):
    asyncio = True


@ARTEMIS
class TestJmsOnArtemisInTransactions(OnArtemis, AnsweringContract):
    settings: ClassVar[str] = f"{OnArtemis.settings}&session=transacted"


@pytest.fixture(scope="module")
def nats_server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


class TestNats(OpenedContract, ProviderContract):
    refuses_same_name = False
    takes_over = False
    server: NatsServer

    @pytest.fixture(autouse=True)
    def _server(self, nats_server: NatsServer) -> None:
        self.server = nats_server

    @property
    def url(self) -> str:
        return f"nats://{self.server.address}?first_count=as_told"

    async def send_garbage(self, destination: str, count: int) -> None:
        client = await driver.connect(f"nats://{self.server.address}")
        for _ in range(count):
            sent = client.jetstream()
            await sent.publish(destination, b"{ cut off", headers={"Content-Type": "application/json"})
        await client.close()


@pytest.mark.prove
class TestNatsThroughAsyncio(TestNats):
    asyncio = True


@pytest.mark.prove  # it takes its time
class TestSqs(OpenedContract, ProviderContract):
    counts = False
    delay: ClassVar[timedelta] = timedelta(seconds=1)
    keeps_order = False
    #: ElasticMQ takes 256 KiB, and bytes need a third more.
    largest: ClassVar[int] = 180_000
    refuses_same_name = False
    subscribes = False
    takes_over = False
    server: SqsServer

    @pytest.fixture(autouse=True)
    def _server(self, elasticmq: SqsServer) -> None:
        self.server = elasticmq

    def dead_letters_of(self, destination: str) -> str:
        return f"DLQ-{destination}"

    @property
    def url(self) -> str:
        return f"sqs://eu-west-1?endpoint={self.server.address}&visibility=600"

    async def send_garbage(self, destination: str, count: int) -> None:
        client = self.server.client()
        address = client.get_queue_url(QueueName=destination)["QueueUrl"]
        attributes = {"content-type": {"DataType": "String", "StringValue": "application/json"}}
        for _ in range(count):
            client.send_message(QueueUrl=address, MessageBody="{ cut off", MessageAttributes=attributes)


class TestSqsThroughAsyncio(TestSqs):
    asyncio = True
