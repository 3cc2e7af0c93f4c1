"""Entries near the end of their time slice in Redis: no entry and no bucket expires early."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from history import EntryOutcome, RedisHistory, Settlement, Uuid
from history.bridge import drive
from history.store import CLAIM_BATCH, BatchOwner

TRIGGER = "book-order"
HISTORY = f"doubtless:{{{TRIGGER}}}:history"


def complete(history: RedisHistory, uuids: Sequence[str], time_to_live: timedelta) -> None:
    for first in range(0, len(uuids), CLAIM_BATCH):
        some = uuids[first : first + CLAIM_BATCH]
        claims = drive(history.claim(TRIGGER, some, "worker-1", time_to_live=time_to_live))
        ends = [Settlement(Uuid(u), one.fence, EntryOutcome.OK) for u, one in zip(some, claims, strict=True)]
        assert all(drive(history.settle(TRIGGER, ends)))


def at_the_end_of_its_slice(client: Any, *, left: timedelta) -> None:
    """Move the only slice of a history back in time, to end after ``left``. Its entry ends with it.

    The test does not wait or set a clock. It writes the data of a slice near its end.
    """
    meta = client.hget(HISTORY, "meta")
    name, _, numbers = meta[16:].partition(b"\0")
    begins, length, step = (int.from_bytes(numbers[at : at + 6], "big") for at in (0, 6, 12))
    seconds, micros = client.time()
    end = seconds * 1000 + micros // 1000 + left // timedelta(milliseconds=1)
    units = 16383  # an entry that starts in the last step of the slice expires last
    moved = end - units * step - 2 * length
    client.hset(HISTORY, "meta", meta[:16] + name + b"\0" + moved.to_bytes(6, "big") + numbers[6:])
    assert moved < begins
    (bucket,) = client.scan_iter(f"{HISTORY}:*:0")
    for digest, entry in client.hgetall(bucket).items():
        if digest:
            client.hset(bucket, digest, units.to_bytes(2, "big") + entry[2:])


def test_an_entry_is_found_until_the_end_of_its_slice(history: RedisHistory, client: Any) -> None:
    """Each script also finds it after two thirds of the lifetime of its slice and its buckets."""
    length, other = timedelta(days=20), timedelta(days=2)
    complete(history, ["u1"], length)
    at_the_end_of_its_slice(client, left=timedelta(hours=1))

    assert state_of_one(history) is EntryOutcome.OK
    complete(history, ["another slice"], other)  # which drops the slices that have ended
    (single,) = drive(history.claim(TRIGGER, ["u1"], "worker-2"))
    (of_batch,) = drive(history.claim(TRIGGER, ["u1"], BatchOwner("q/1")))
    drive(history.purge(TRIGGER))

    assert single.found is not None
    assert of_batch.found is not None
    assert state_of_one(history) is EntryOutcome.OK
    assert len(drive(history.scan(TRIGGER)).entries) == 2
    assert drive(history.stats(TRIGGER)).completed == 2


def test_a_bucket_lives_as_long_as_the_last_entry_that_it_may_hold(
    history: RedisHistory, client: Any
) -> None:
    complete(history, [f"u{n}" for n in range(300)], timedelta(days=20))

    buckets = [key.decode() for key in client.scan_iter(f"{HISTORY}:*:*:*")]

    assert len(buckets) > 1, "some were split off"
    for bucket in buckets:
        length, index, _ = map(int, bucket.removeprefix(f"{HISTORY}:").split(":"))
        assert client.pexpiretime(bucket) >= (index + 3) * length


def state_of_one(history: RedisHistory) -> EntryOutcome | None:
    (entry,) = drive(history.lookup(TRIGGER, ["u1"]))
    return None if entry is None else entry.outcome
