"""The Redis history on a real Redis Cluster: each script, all checks, its URL, and streams."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from history import EntryOutcome, HistoryUnavailableError, Settlement, Uuid, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.contract import HistoryContract
from history.contract.claims import AdoptionContract, ClaimContract
from history.contract.common import state_of
from history.contract.records import RecordContract
from history.contract.runs import RunContract
from history.contract.upkeep import UpkeepContract
from history.redis import RedisHistory
from history.redis.connection.probe import hang_up
from history.store import HistoryStore
from tests.contract.beside.control import ControlContract
from tests.contract.beside.join_periods import JoinPeriodContract
from tests.fixtures.servers.redis_cluster import async_cluster_client, cluster_client, redis_cluster
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Lane, send
from triggers.testing.redis_server import free_port

__all__ = ["redis_cluster"]


@pytest.fixture
def client(redis_cluster: int) -> Any:
    client = cluster_client(redis_cluster)
    client.flushall(target_nodes="primaries")
    return client


class OnACluster:
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


class TestEachScriptOnACluster(OnACluster, AdoptionContract):
    """Together these checks run every script. Each script answers as on a single server."""

    test_claims = ClaimContract.test_claiming_twice_with_one_token_is_idempotent
    test_entries = RunContract.test_a_store_answers_as_the_pure_transitions_do
    test_scans = UpkeepContract.test_a_scan_meets_everything_once
    test_upkeep = UpkeepContract.test_an_unknown_trigger_is_empty
    test_joins = JoinPeriodContract.test_a_finished_period_is_forgotten_once
    test_joins_of_one = JoinPeriodContract.test_the_first_of_an_activation_stays_the_first
    test_records = RecordContract.test_what_has_not_changed_for_long_is_forgotten
    test_steps = RecordContract.test_of_a_step_with_one_refused_change_nothing_is_made
    test_single_changes = RecordContract.test_each_change_may_stand_for_itself
    test_lines = RecordContract.test_lines_are_read_in_pages_the_newest_first
    test_orders = ControlContract.test_a_beat_brings_the_orders_of_its_own_triggers
    test_sweeps = ControlContract.test_a_sweep_deletes_words_and_keeps_counts_and_orders
    test_statistics = ControlContract.test_statistics_begin_again_at_zero


@pytest.mark.prove
class TestRedisHistoryOnACluster(OnACluster, HistoryContract):
    """The whole conformance suite."""


def test_triggers_spread_over_the_nodes_and_each_stays_on_one(client: Any) -> None:
    history = RedisHistory(client)
    for number in range(30):
        drive(history.claim(f"trigger {number}", [f"u{n}" for n in range(3)], "worker-1"))

    masters = client.get_primaries()
    held: list[set[bytes]] = [set(client.scan_iter("doubtless:{*", target_nodes=node)) for node in masters]

    assert all(held), "each node holds something"
    assert len({key for keys in held for key in keys}) == sum(map(len, held)) == 2 * 30
    assert len(drive(history.triggers())) == 30
    drive(history.close())


def _connections(client: Any) -> set[tuple[str, str]]:
    nodes = client.client_list(target_nodes="primaries")
    return {(node, one["id"]) for node, connections in nodes.items() for one in connections}


@pytest.mark.parametrize("connect", [cluster_client, async_cluster_client], ids=["blocking", "asyncio"])
async def test_hanging_up_opens_a_new_connection_to_each_node(
    client: Any, redis_cluster: int, connect: Callable[[int], Any]
) -> None:
    own = connect(redis_cluster)
    history = RedisHistory(own)
    triggers = [f"trigger {number}" for number in range(12)]
    for trigger in triggers:
        await history.claim(trigger, ["u1"], "worker-1")
    before = _connections(client)

    await hang_up(own)

    for trigger in triggers:
        assert (await history.claim(trigger, ["u2"], "worker-1"))[0].found is None
    after = _connections(client)
    assert len(after - before) >= 3, "one to each node"
    assert len(before - after) >= 3, "and the old ones are closed"
    await history.close()
    client.close()


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


TRIGGER = "book-order"


async def test_a_history_on_a_cluster_is_opened_by_one_of_its_nodes(redis_cluster: int, form: str) -> None:
    store = opened(redis_cluster, form)
    (claim,) = await store.claim(TRIGGER, [form], "worker-1")
    assert claim.fence is not None
    await store.settle(TRIGGER, [Settlement(Uuid(form), claim.fence, EntryOutcome.OK)])

    (entry,) = await store.lookup(TRIGGER, [form])

    assert state_of(entry) is EntryOutcome.OK
    await store.close()


async def test_a_cluster_that_is_away_is_said_when_it_is_used(form: str) -> None:
    store = opened(free_port(), form)

    for _ in range(2):
        with pytest.raises(HistoryUnavailableError):
            await store.claim(TRIGGER, ["u1"], "worker-1")

    await store.close()


async def test_a_cluster_that_is_away_has_its_address_all_the_same(form: str) -> None:
    """A consumer asks for the address first, because it distinguishes histories by it."""
    port = free_port()
    store = opened(port, form)

    assert store.control.address == f"redis cluster:127.0.0.1:{port}"

    await store.close()


def test_a_consumer_of_streams_on_a_cluster_runs_each_message_once(lane: Lane, redis_cluster: int) -> None:
    ran: Counter[str | None] = Counter()
    name = f"orders-{lane.asyncio}"
    orders = lane.trigger(name, lambda message: ran.update([message.uuid]))
    url, uuids = f"redis+cluster://127.0.0.1:{redis_cluster}", [str(number) for number in range(30)]
    send(url, name, *uuids, *uuids[:10])

    with lane.run([orders], url, history=url, until_idle=0.5):
        eventually(lambda: len(ran) == 30)

    assert ran == Counter(uuids)


def opened(port: int, form: str) -> KeepsBeside:
    """Open the history on a cluster by the port of a node."""
    history = open_history(f"redis+cluster://127.0.0.1:{port}")
    return history.for_asyncio() if form == "asyncio" else history
