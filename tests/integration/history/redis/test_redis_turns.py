"""A script settles a run and claims the next message. That may be a copy, or the claim may fail."""

from datetime import timedelta

import pytest

from history.bridge import drive
from history.entry import DEFAULT_TIME_TO_LIVE, EntryOutcome, Fence, Settlement, State, digest
from history.errors import HistoryUnavailableError
from history.message import Uuid
from history.redis import RedisHistory
from history.store.turning import NextClaim
from tests.fixtures.servers.redis import connected

TRIGGER = "book-order"
HISTORY = f"doubtless:{{{TRIGGER}}}:history"
LEASE = timedelta(seconds=30)


def started(history: RedisHistory, uuid: str) -> Fence:
    """Claim a uuid as worker-1. Complete another uuid before, so that a time slice exists."""
    (first,) = drive(history.claim(TRIGGER, ["before"], "worker-1", LEASE))
    assert drive(history.complete(TRIGGER, "before", first.fence, owner="worker-1"))
    (claim,) = drive(history.claim(TRIGGER, [uuid], "worker-1", LEASE))
    return claim.fence


def ended(uuid: str, fence: Fence, outcome: EntryOutcome | None = EntryOutcome.OK) -> Settlement:
    return Settlement(Uuid(uuid), fence, outcome, "worker-1")


def following(uuid: str) -> NextClaim:
    return NextClaim(uuid, "worker-2", LEASE, DEFAULT_TIME_TO_LIVE)


def in_flight(redis_url: str) -> set[bytes]:
    with connected(redis_url) as client:
        return set(client.hkeys(HISTORY)) - {b"meta"}


@pytest.mark.parametrize(
    ("late", "outcome", "next_uuid", "met", "running"),
    [
        (0, EntryOutcome.OK, "order-2", None, ["order-2"]),
        (0, EntryOutcome.OK, "order-1", State.COMPLETED, []),
        (0, None, "order-1", None, ["order-1"]),
        (1, EntryOutcome.OK, "order-2", None, ["order-1", "order-2"]),
    ],
    ids=["another message", "a copy of what ended", "a copy of what was released", "after a stale fence"],
)
def test_a_turn_settles_what_is_its_own_and_claims_the_next(
    history: RedisHistory,
    redis_url: str,
    late: int,
    outcome: EntryOutcome | None,
    next_uuid: str,
    met: State | None,
    running: list[str],
) -> None:
    fence = started(history, "order-1")

    end = ended("order-1", Fence(fence - late), outcome)
    turned = drive(history.turn(TRIGGER, end, following(next_uuid), None))

    assert (turned.settled, turned.acknowledged) == (late == 0, False)
    assert turned.claim is not None
    assert (turned.claim.found and turned.claim.found.state) == met
    assert met is not None or turned.claim.fence > fence
    assert in_flight(redis_url) == {digest(uuid) for uuid in running}


def test_turns_add_the_buckets_that_their_messages_need(history: RedisHistory, redis_url: str) -> None:
    fence = started(history, "order-0")
    for number in range(300):
        end = Settlement(Uuid(f"order-{number}"), fence, EntryOutcome.OK, None)
        claim = drive(history.turn(TRIGGER, end, following(f"order-{number + 1}"), None)).claim
        assert claim is not None
        fence = claim.fence

    with connected(redis_url) as client:
        assert len(client.keys(f"{HISTORY}:*:*")) > 2
    found = drive(history.lookup(TRIGGER, [f"order-{number}" for number in range(300)]))
    assert {entry.outcome for entry in found if entry is not None} == {EntryOutcome.OK}
    assert None not in found


def test_a_run_stays_completed_although_the_next_message_cannot_be_claimed(
    history: RedisHistory, redis_url: str
) -> None:
    fence = started(history, "order-1")
    with connected(redis_url) as client:
        (bucket,) = client.keys(f"{HISTORY}:*:0")
        # Another time to live has another slice. Its only bucket is lost.
        (other,) = drive(history.claim(TRIGGER, ["other"], "worker-1", time_to_live=timedelta(days=1)))
        assert drive(history.complete(TRIGGER, "other", other.fence, owner="worker-1"))
        (lost,) = set(client.keys(f"{HISTORY}:*:0")) - {bucket}
        client.delete(lost)

    with pytest.raises(HistoryUnavailableError):
        drive(history.turn(TRIGGER, ended("order-1", fence), following("order-2"), None))

    assert drive(history.complete(TRIGGER, "order-1", fence, owner="worker-1"))
    (entry,) = drive(history.lookup(TRIGGER, ["order-1"]))
    assert entry is not None
    assert entry.state is State.COMPLETED
    assert in_flight(redis_url) == set()
