"""A Redis Cluster by its URL: histories and streams; it may be away when it is named."""

from collections import Counter

import pytest

from history import EntryOutcome, HistoryUnavailableError, Settlement, Uuid, open_history
from history.beside.kept import KeepsBeside
from history.contract.common import state_of
from tests.fixtures.servers.redis_cluster import redis_cluster
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Lane, send
from triggers.testing.redis_server import free_port

__all__ = ["redis_cluster"]

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
    """A consumer asks for it before anything else, to tell one history from another."""
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
