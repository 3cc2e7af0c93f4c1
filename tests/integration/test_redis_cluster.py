"""The Redis history on a real Redis Cluster: the conformance suite, and triggers spread over nodes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from history.bridge import drive
from history.contract import HistoryContract
from history.redis import RedisHistory
from history.store import HistoryStore
from tests.fixtures.redis_cluster import async_cluster_client, cluster_client, redis_cluster

__all__ = ["redis_cluster"]


@pytest.fixture
def client(redis_cluster: int) -> Any:
    """A client of the emptied cluster."""
    client = cluster_client(redis_cluster)
    client.flushall(target_nodes="primaries")
    return client


class TestRedisHistoryOnACluster(HistoryContract):
    runs = 20

    @pytest.fixture(params=["blocking", "asyncio"])
    def blocking(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.param == "blocking")

    @pytest.fixture
    async def store(self, client: Any, redis_cluster: int, *, blocking: bool) -> AsyncIterator[HistoryStore]:
        store = RedisHistory(client if blocking else async_cluster_client(redis_cluster))
        yield store
        await store.close()
        client.close()

    @pytest.fixture
    async def another(self, redis_cluster: int, *, blocking: bool) -> AsyncIterator[HistoryStore]:
        connect = cluster_client if blocking else async_cluster_client
        another = RedisHistory(connect(redis_cluster))
        yield another
        await another.close()


def test_triggers_spread_over_the_nodes_and_each_stays_on_one(client: Any) -> None:
    history = RedisHistory(client)
    for number in range(30):
        drive(history.claim(f"trigger {number}", [f"u{n}" for n in range(3)], "worker-1"))

    masters = client.get_primaries()
    held: list[set[bytes]] = [set(client.scan_iter("doubtless:{*", target_nodes=node)) for node in masters]

    assert all(held), "each node holds something"
    assert len({key for keys in held for key in keys}) == sum(map(len, held)) == 30
    assert len(drive(history.triggers())) == 30
    drive(history.close())


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_one_node_that_evicts_is_refused(client: Any, policy: str) -> None:
    other = next(node for node in client.get_primaries() if node != client.get_default_node())
    client.config_set("maxmemory-policy", policy, target_nodes=other)

    try:
        with pytest.raises(ValueError, match=policy):
            drive(RedisHistory(client).claim("orders", ["u1"], "worker-1"))
    finally:
        client.config_set("maxmemory-policy", "noeviction", target_nodes="primaries")
        client.close()
