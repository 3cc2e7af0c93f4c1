"""Every provider of ours passes the conformance suite, blocking and through asyncio."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry
from sqlalchemy import create_engine, text

from history.bridge import drive
from history.errors import ConfigurationError
from history.message import Message
from tests.contract.opened import OpenedContract
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from triggers.providers.contract import ProviderContract
from triggers.providers.contract.common import ContractTools
from triggers.providers.memory import MemoryProvider
from triggers.providers.provider import Provider
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.settings import StreamSettings, dead_letters_of
from triggers.providers.sqljms.provider import SqlJms
from triggers.testing.redis_server import RedisServer, free_port

BRISK = "lease=5&poll_interval=0.1"
QUICK = "?claim_idle=1&reclaim_interval=0.1"
IMPATIENT = StreamSettings(claim_idle=timedelta(seconds=1), reclaim_interval=timedelta(seconds=0.1))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One node that owns every slot: like any Cluster, it refuses keys of two slots in one script."""
    own = {"cluster-enabled": "yes", "cluster-port": str(free_port())}
    with RedisServer(tmp_path_factory.mktemp("cluster"), appendfsync="no", **own) as server:
        with connected(server.url) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            eventually(lambda: client.cluster("info")["cluster_state"] == "ok")
        yield server


class TestMemory(ProviderContract):
    asyncio = False
    survives_forks = None
    sends_garbage = False
    limits_bodies = False

    @pytest.fixture
    def provider(self) -> Provider:
        return MemoryProvider().for_asyncio() if self.asyncio else MemoryProvider()

    @pytest.fixture
    def another(self, provider: Provider) -> Provider:
        return provider


class TestMemoryThroughAsyncio(TestMemory):
    asyncio = True


class OnRedisStreams(ContractTools):
    server: str

    async def send_garbage(self, destination: str, count: int) -> None:
        with connected(self.server) as client:
            for _ in range(count):
                client.xadd(destination, {"body": b"\xff", "body-kind": "text"})

    def dead_letters_of(self, destination: str) -> str:
        return dead_letters_of(destination)


class TestRedisStreams(OnRedisStreams, OpenedContract, ProviderContract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_url: str) -> None:
        self.server = redis_url

    @property
    def url(self) -> str:
        return self.server + QUICK


class TestRedisStreamsOnACluster(OnRedisStreams, ProviderContract):
    @pytest.fixture(autouse=True)
    def _server(self, cluster: RedisServer) -> None:
        self.server = cluster.url

    @pytest.fixture
    def provider(self, cluster: RedisServer) -> Iterator[Provider]:
        retry = Retry(NoBackoff(), 0)
        client = RedisCluster(host="127.0.0.1", port=cluster.port, retry=retry, socket_timeout=6)
        provider = RedisStreams(client, IMPATIENT)
        yield provider
        drive(provider.close())

    @pytest.fixture
    def another(self, cluster: RedisServer) -> Iterator[Provider]:
        provider = RedisStreams.from_url(cluster.url + QUICK)
        yield provider
        drive(provider.close())

    @pytest.mark.parametrize("kind", [RedisCluster, AsyncRedisCluster], ids=["blocking", "asyncio"])
    def test_a_client_that_retries_is_refused(self, cluster: RedisServer, kind: Any) -> None:
        with pytest.raises(ConfigurationError, match="sends a command again"):
            RedisStreams(kind(host="127.0.0.1", port=cluster.port))

    def test_so_is_one_that_decodes(self, cluster: RedisServer) -> None:
        url = cluster.url.replace("redis:", "redis+cluster:") + QUICK

        with pytest.raises(ConfigurationError, match="decode_responses"):
            RedisStreams.from_url(f"{url}&decode_responses=True")


class TestRedisStreamsThroughAsyncio(TestRedisStreams):
    asyncio = True


class TestSqlJmsOnSqlite(OpenedContract, ProviderContract):
    limits_bodies = False
    database: str

    @pytest.fixture(autouse=True)
    def _database(self, tmp_path: Path) -> None:
        self.database = f"sqlite:///{tmp_path}/messages.sqlite3?{BRISK}"

    @property
    def url(self) -> str:
        return self.database

    async def send_garbage(self, destination: str, count: int) -> None:
        sender = SqlJms.from_url(self.database)
        drive(sender.send(destination, [Message(body="garbage") for _ in range(count)]))
        drive(sender.close())
        plain = self.database.replace(BRISK, "").rstrip("?&").replace("postgresql:", "postgresql+psycopg:")
        engine = create_engine(plain)
        with engine.begin() as connection:
            garbled = text("UPDATE dms_msg SET msg_class = 'StreamMessage' WHERE small_body = :body")
            connection.execute(garbled, {"body": b"garbage"})
        engine.dispose()


class TestSqlJmsOnSqliteThroughAsyncio(TestSqlJmsOnSqlite):
    asyncio = True


class TestSqlJmsOnPostgresql(TestSqlJmsOnSqlite):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url: str) -> None:
        self.database = f"{postgres_url}&{BRISK}"


class TestSqlJmsOnPostgresqlThroughAsyncio(TestSqlJmsOnPostgresql):
    asyncio = True
