"""Claims by digests alone, as a batch of Spark makes them: the same as claims by uuid."""

from collections.abc import Sequence
from datetime import timedelta

from history import RedisHistory, Uuid
from history.bridge import drive
from history.entry import Entry, EntryOutcome, Settlement, State, digest
from history.store import CLAIM_BATCH, BatchOwner, PackedClaims

TRIGGER = "book-order"
OWNER, OTHER = BatchOwner("query/1/run"), BatchOwner("query/0/run")
UUIDS = [f"order-{number}" for number in range(2 * CLAIM_BATCH + 1)]


def found(history: RedisHistory, uuids: Sequence[str], owner: BatchOwner = OWNER) -> Sequence[Entry | None]:
    """Claim by digests. Return the entry that blocks each claim, or None."""
    packed = b"".join(map(digest, uuids))
    pieces = drive(history.claim_packed(TRIGGER, packed, owner, timedelta(seconds=30)))
    return [piece.entries[index] for piece in pieces for index in piece.indexes]


def test_redis_claims_by_digests(history: RedisHistory) -> None:
    assert isinstance(history, PackedClaims)


def test_what_is_absent_is_claimed_and_may_be_claimed_again(history: RedisHistory) -> None:
    assert found(history, UUIDS) == [None] * len(UUIDS)
    assert found(history, UUIDS) == [None] * len(UUIDS)

    entries = drive(history.lookup(TRIGGER, UUIDS))

    assert {entry and entry.owner for entry in entries} == {OWNER.token}
    assert drive(history.settle_batches(TRIGGER, [OWNER], EntryOutcome.OK))
    assert {entry and entry.state for entry in found(history, UUIDS, OTHER)} == {State.COMPLETED}


def test_what_stands_in_the_way_is_told_of_its_digest_and_of_no_other(history: RedisHistory) -> None:
    completed, running, of_batch = UUIDS[7], UUIDS[CLAIM_BATCH + 3], UUIDS[-1]
    (claim,) = drive(history.claim(TRIGGER, [completed], "worker-1"))
    drive(history.settle(TRIGGER, [Settlement(Uuid(completed), claim.fence, EntryOutcome.OK)]))
    drive(history.claim(TRIGGER, [running], "worker-2", timedelta(seconds=30)))
    drive(history.claim(TRIGGER, [of_batch], OTHER))

    entries = dict(zip(UUIDS, found(history, UUIDS), strict=True))

    there = {uuid: (entry.state, entry.owner) for uuid, entry in entries.items() if entry is not None}
    assert there == {
        completed: (State.COMPLETED, None),
        running: (State.STARTED, "worker-2"),
        of_batch: (State.STARTED, OTHER.token),
    }
    claims = drive(history.claim(TRIGGER, UUIDS, OWNER))
    told = [(entry.state, entry.owner) for entry in entries.values() if entry is not None]
    assert told == [(one.found.state, one.found.owner) for one in claims if one.found is not None]
