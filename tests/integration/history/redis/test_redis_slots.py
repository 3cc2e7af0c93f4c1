"""The Redis history on a Redis Cluster while a trigger's slot moves to another node, key by key."""

from collections.abc import Iterator
from typing import Any

import pytest

from history import EntryOutcome, HistoryUnavailableError, RedisHistory, Settlement, State, Uuid
from history.bridge import drive
from history.contract.common import state_of
from history.store import BatchOwner
from tests.fixtures.servers.redis_cluster import SlotMove, cluster_client, redis_cluster

__all__ = ["redis_cluster"]

TRIGGER = "book-order"
HISTORY = f"doubtless:{{{TRIGGER}}}:history"
DONE = [f"u{n}" for n in range(150)]
HELD = [f"held{n}" for n in range(50)]


@pytest.fixture
def client(redis_cluster: int) -> Iterator[Any]:
    client = cluster_client(redis_cluster)
    client.flushall(target_nodes="primaries")
    yield client
    client.close()


#: The keys with these endings move first.
FIRST = {"runs": (":history",), "ledger": (":batches",), "buckets": tuple("0123456789")}


@pytest.mark.parametrize("first", FIRST)
def test_what_is_remembered_is_not_new_while_its_slot_moves(
    client: Any, redis_cluster: int, first: str
) -> None:
    history = RedisHistory(client)
    claims = drive(history.claim(TRIGGER, DONE, "worker-1"))
    ends = [
        Settlement(Uuid(u), c.fence, EntryOutcome.OK, "worker-1") for u, c in zip(DONE, claims, strict=True)
    ]
    assert all(drive(history.settle(TRIGGER, ends)))
    drive(history.claim(TRIGGER, HELD, BatchOwner("query-1/7")))
    assert drive(history.settle_batch(TRIGGER, BatchOwner("query-1/7"), EntryOutcome.OK))
    (running,) = drive(history.claim(TRIGGER, ["running"], "worker-1"))
    known = [*DONE, *HELD, "running"]
    move = SlotMove(client, HISTORY)

    def look(when: str) -> bool:
        """Claim all known uuids, with a client that knew the cluster before and with a new client."""
        answered = 0
        for owner in ("worker-2", BatchOwner(f"query-2/{when}")):
            fresh = cluster_client(redis_cluster)
            try:
                found = [one.found for one in drive(RedisHistory(fresh).claim(TRIGGER, known, owner))]
                assert None not in found, when
                answered += 1
            except HistoryUnavailableError:
                pass
            finally:
                fresh.close()
        return answered == 2

    move.begin()
    assert len(move.left) >= 5
    for key in sorted(move.left, key=lambda key: not key.endswith(FIRST[first])):
        move.move(key)
        look(key)
    with pytest.raises(HistoryUnavailableError):
        drive(history.complete(TRIGGER, "running", running.fence, owner="worker-1"))
    assert move.left == []
    move.end()

    assert look("moved"), "it heals by itself"
    assert drive(history.complete(TRIGGER, "running", running.fence, owner="worker-1"))
    states = [state_of(entry) for entry in drive(history.lookup(TRIGGER, known))]
    assert states == [EntryOutcome.OK] * len(known)
    assert drive(history.claim(TRIGGER, ["new"], "worker-1"))[0].found is None
    assert state_of(drive(history.lookup(TRIGGER, ["new"]))[0]) is State.STARTED
    drive(history.close())
