"""Completed entries in Redis are packed when their time slice ends. The buckets answer as before."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice, pairwise
from random import Random
from threading import Thread
from typing import Any

import pytest

from history import (
    Entry,
    EntryOutcome,
    HistoryUnavailableError,
    NotPermittedError,
    RedisHistory,
    Settlement,
    State,
    Uuid,
)
from history.bridge import drive
from history.entry import SHORT_DIGEST_SIZE, short_digest
from history.redis.scripts import HistoryLostError
from history.redis.spoilt import HistoryBrokenError, HistoryLayoutError
from history.store import CLAIM_BATCH, BatchOwner
from tests.fixtures.aging import age, in_the_middle_of_its_slice
from tests.fixtures.servers.redis import connected
from triggers.testing.redis_server import RedisServer

TRIGGER = "book-order"
HISTORY = f"doubtless:{{{TRIGGER}}}:history"

#: Bytes of an entry's value, and of the number of entries at the beginning of a packed bucket.
VALUE, NUMBER = 5, 3

#: Bytes of an entry in a packed bucket without its tag, which is the last byte of its short digest.
REST = SHORT_DIGEST_SIZE - 1 + VALUE


@pytest.fixture
def time_to_live(client: Any) -> timedelta:
    """A time to live with a current slice that does not end soon."""
    return in_the_middle_of_its_slice(client)


def claim(history: RedisHistory, uuids: Sequence[str], time_to_live: timedelta) -> Sequence[int]:
    """Claim new uuids for a worker; return their fences."""
    claims = drive(history.claim(TRIGGER, uuids, "worker-1", time_to_live=time_to_live))
    assert [single.found for single in claims] == [None] * len(uuids)
    return [single.fence for single in claims]


def settle(
    history: RedisHistory,
    uuids: Sequence[str],
    fences: Sequence[int],
    outcome: EntryOutcome = EntryOutcome.OK,
) -> None:
    """Complete runs in flight."""
    ends = [Settlement(Uuid(u), fence, outcome) for u, fence in zip(uuids, fences, strict=True)]  # type: ignore[arg-type]
    assert all(drive(history.settle(TRIGGER, ends)))


def complete(
    history: RedisHistory,
    uuids: Sequence[str],
    time_to_live: timedelta,
    outcome: EntryOutcome = EntryOutcome.OK,
) -> None:
    for first in range(0, len(uuids), CLAIM_BATCH):
        some = uuids[first : first + CLAIM_BATCH]
        settle(history, some, claim(history, some, time_to_live), outcome)


def pack(history: RedisHistory, client: Any) -> None:
    """Let the time slices end, and sweep, so that all buckets are packed."""
    age(client, TRIGGER)
    drive(history.purge(TRIGGER))
    assert set(forms(client)) == {b"string"}


def pack_before_late(
    history: RedisHistory, client: Any, uuids: Sequence[str], time_to_live: timedelta
) -> tuple[bytes, int]:
    """Pack the only bucket while the run "late" goes on; return the bucket, and the fence of the run."""
    complete(history, uuids, time_to_live)
    (fence,) = claim(history, ["late"], time_to_live)
    pack(history, client)
    (bucket,) = buckets(client)
    return bucket, fence


def buckets(client: Any) -> Sequence[bytes]:
    return sorted(client.scan_iter(f"{HISTORY}:*:*:*", count=10_000))


def forms(client: Any) -> Sequence[bytes]:
    return [client.type(bucket) for bucket in buckets(client)]


def look_up(history: RedisHistory, *uuids: str) -> Sequence[Entry | None]:
    return drive(history.lookup(TRIGGER, uuids))


def outcomes(history: RedisHistory, *uuids: str) -> Sequence[EntryOutcome | State | None]:
    """Return the outcome of each uuid, or its state while it has none."""
    return [None if entry is None else entry.outcome or entry.state for entry in look_up(history, *uuids)]


def names(count: int, beginning: str = "u") -> list[str]:
    return [f"{beginning}{n}" for n in range(count)]


OK, FAILED, STARTED = EntryOutcome.OK, EntryOutcome.FAILED, State.STARTED


def test_packed_entries_answer_every_question_as_before(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    done, failed, of_batch, running = names(300), names(20, "f"), names(50, "b"), names(10, "r")
    complete(history, done, time_to_live)
    complete(history, failed, time_to_live, FAILED)
    drive(history.claim(TRIGGER, of_batch, BatchOwner("q/1"), time_to_live=time_to_live))
    drive(history.settle_batch(TRIGGER, BatchOwner("q/1"), OK))
    drive(history.claim(TRIGGER, running, BatchOwner("q/2"), time_to_live=time_to_live))
    everything = [*done, *failed, *of_batch, *running, "never seen"]
    age(client, TRIGGER)
    before = look_up(history, *everything)
    assert set(forms(client)) == {b"hash"}

    drive(history.purge(TRIGGER))

    assert set(forms(client)) == {b"string"}
    after = look_up(history, *everything)
    assert [
        entry and (entry.outcome, entry.fence, entry.started_at, entry.expires_at) for entry in after
    ] == [entry and (entry.outcome, entry.fence, entry.started_at, entry.expires_at) for entry in before]
    single = drive(history.claim(TRIGGER, [*done, *of_batch], "worker-2"))
    by_batch = drive(history.claim(TRIGGER, [*failed, *running, *done], BatchOwner("q/3")))
    assert all(claimed.found for claimed in [*single, *by_batch])
    assert outcomes(history, "never seen") == [None]
    page = drive(history.scan(TRIGGER, limit=10_000))
    assert sorted(entry.digest for entry in page.entries) == sorted(map(short_digest, everything[:-1]))
    stats = drive(history.stats(TRIGGER))
    assert (stats.started, stats.completed) == (10, 370)


def test_a_new_uuid_is_claimed_next_to_packed_entries(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, names(300), time_to_live)
    pack(history, client)

    claim(history, names(200, "new"), time_to_live)
    by_batch = drive(
        history.claim(TRIGGER, names(200, "newer"), BatchOwner("q/1"), time_to_live=time_to_live)
    )

    assert [claimed.found for claimed in by_batch] == [None] * 200


def test_a_slice_is_packed_only_after_its_end(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, names(300), time_to_live)

    drive(history.purge(TRIGGER))

    assert set(forms(client)) == {b"hash"}


def test_packing_is_done_in_pieces_and_every_entry_is_found_in_between(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    uuids = names(8000)
    complete(history, uuids, time_to_live)
    age(client, TRIGGER)
    in_strings, cursor = [0], None

    while True:
        _, cursor = drive(history.purge_some(TRIGGER, cursor))
        in_strings.append(forms(client).count(b"string"))
        if in_strings[-1] != in_strings[-2]:
            assert set(outcomes(history, *uuids[::7])) == {OK}
        if cursor is None:
            break

    assert len(buckets(client)) > 100
    assert in_strings[-1] == len(buckets(client))
    assert max(later - earlier for earlier, later in pairwise(in_strings)) <= 10
    assert set(outcomes(history, *uuids)) == {OK}


def test_a_packed_bucket_expires_with_its_slice(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, names(200), time_to_live)
    expiries = {client.pexpiretime(bucket) for bucket in buckets(client)}

    pack(history, client)
    assert drive(history.forget(TRIGGER, "u7"))

    assert {client.pexpiretime(bucket) for bucket in buckets(client)} == expiries


def packed(*entries: bytes) -> bytes:
    """Return a packed bucket of entries, each a short digest and a value."""
    last = SHORT_DIGEST_SIZE - 1
    tags = b"".join(entry[last : last + 1] for entry in entries)
    return len(entries).to_bytes(NUMBER, "big") + tags + b"".join(e[:last] + e[last + 1 :] for e in entries)


def entry_of(client: Any, bucket: bytes, uuid: str) -> bytes:
    """Return the short digest of a uuid, and its value in a packed bucket."""
    content: bytes = client.get(bucket)
    wanted = short_digest(uuid)
    at = content.index(wanted[:-1], NUMBER)
    return wanted + content[at + SHORT_DIGEST_SIZE - 1 : at + REST]


def test_entries_with_the_same_tag_are_told_apart(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, ["u1"], time_to_live)
    pack(history, client)
    (bucket,) = buckets(client)
    entry = entry_of(client, bucket, "u1")
    digest, value = entry[:SHORT_DIGEST_SIZE], entry[SHORT_DIGEST_SIZE:]
    same_tag = bytes([digest[0] ^ 1]) + digest[1:] + value
    other_tag = digest[:-1] + bytes([digest[-1] ^ 1]) + value
    assert client.get(bucket) == packed(entry)

    for others in ([same_tag], [other_tag], [same_tag, other_tag, same_tag]):
        client.set(bucket, packed(*others), keepttl=True)
        assert outcomes(history, "u1") == [None]
        client.set(bucket, packed(*others, entry, *others), keepttl=True)
        assert outcomes(history, "u1") == [OK]


def test_a_tag_counts_only_among_the_tags(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    """The byte is also in the digests and values that come after the tags."""
    complete(history, ["u1"], time_to_live)
    pack(history, client)
    (bucket,) = buckets(client)
    tag = short_digest("u1")[-1:]
    other = tag * (SHORT_DIGEST_SIZE - 1) + bytes([tag[0] ^ 1]) + tag * VALUE
    client.set(bucket, packed(other, other), keepttl=True)

    assert outcomes(history, "u1") == [None]


def fill(client: Any, entries: int) -> dict[bytes, bytes]:
    """Add random entries to the only bucket. The history itself would use several buckets."""
    (bucket,) = buckets(client)
    (value,) = (value for digest, value in client.hgetall(bucket).items() if digest)
    random = Random(7)  # noqa: S311
    added = {random.randbytes(SHORT_DIGEST_SIZE): value for _ in range(entries)}
    client.hset(bucket, mapping=added)
    return added


def test_a_bucket_with_more_tags_than_are_read_at_first_is_searched_completely(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    uuids = names(20)
    complete(history, ["u0"], time_to_live)
    fill(client, 300)
    fences = claim(history, uuids[1:], time_to_live)
    pack(history, client)

    settle(history, uuids[1:], fences)  # they come after the others

    assert set(outcomes(history, *uuids)) == {OK}
    assert set(outcomes(history, *names(50, "new"))) == {None}
    assert drive(history.stats(TRIGGER)).completed == 320


def test_a_bucket_that_is_too_large_to_be_packed_stays_a_hash_and_answers(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, ["u1"], time_to_live)
    fences = claim(history, ["late"], time_to_live)
    fill(client, 1200)
    age(client, TRIGGER)

    drive(history.purge(TRIGGER))

    assert forms(client) == [b"hash"]
    assert outcomes(history, "u1", "late", "new") == [OK, STARTED, None]
    settle(history, ["late"], fences)
    by_batch = drive(history.claim(TRIGGER, ["u1", "late", "new"], BatchOwner("q/1")))
    assert [claimed.found is None for claimed in by_batch] == [False, False, True]
    assert drive(history.stats(TRIGGER)).completed == 1202
    assert drive(history.forget(TRIGGER, "u1"))
    assert outcomes(history, "u1", "late") == [None, OK]


def test_a_bucket_with_more_entries_than_a_command_has_words_is_split_and_purged(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    """A sender that chooses its uuids can put all of them into one bucket."""
    complete(history, ["first"], time_to_live)
    (bucket,) = buckets(client)
    value = client.hget(bucket, short_digest("first"))
    assert value is not None
    client.hset(bucket, short_digest("first"), bytes(2) + value[2:])  # it started with the slice
    random = Random(7)  # noqa: S311
    moved = {random.randbytes(3) + b"\1" + random.randbytes(6): bytes(2) + value[2:] for _ in range(9000)}
    client.hset(bucket, mapping=moved)
    complete(history, names(200), time_to_live)  # bucket 1 is added

    assert drive(history.stats(TRIGGER)).completed == 9201
    assert set(outcomes(history, "first", *names(200))) == {OK}
    assert len(buckets(client)) > 1
    age(client, TRIGGER)
    age(client, TRIGGER)

    assert drive(history.purge(TRIGGER)) >= 9001


@pytest.mark.parametrize("is_packed", [False, True])
def test_digests_that_differ_in_their_tenth_byte_are_two(
    history: RedisHistory, client: Any, time_to_live: timedelta, *, is_packed: bool
) -> None:
    complete(history, ["u1"], time_to_live)
    (bucket,) = buckets(client)
    wanted = short_digest("u1")
    value = client.hget(bucket, wanted)
    assert value is not None
    client.hdel(bucket, wanted)
    client.hset(bucket, wanted[:9] + bytes([wanted[9] ^ 1]), value)
    if is_packed:
        pack(history, client)

    assert outcomes(history, "u1") == [None]


def test_late_settlements_go_into_packed_buckets(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    """There are so many that the packed slice needs more buckets."""
    complete(history, names(100), time_to_live)
    late = names(1000, "late")
    fences = [
        fence
        for first in range(0, 1000, CLAIM_BATCH)
        for fence in claim(history, late[first : first + CLAIM_BATCH], time_to_live)
    ]
    pack(history, client)
    assert len(buckets(client)) < 4

    settle(history, late, fences)
    settle(history, late[:200], fences[:200])  # the reply was lost, and it is sent again

    assert len(buckets(client)) > 6
    everything = names(100) + late
    assert set(outcomes(history, *everything)) == {OK}
    page = drive(history.scan(TRIGGER, limit=10_000))
    assert sorted(entry.digest for entry in page.entries) == sorted(map(short_digest, everything))
    assert drive(history.stats(TRIGGER)).completed == 1100
    drive(history.purge(TRIGGER))
    assert set(forms(client)) == {b"string"}
    assert set(outcomes(history, *everything)) == {OK}


def test_entries_of_packed_buckets_can_be_changed(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, names(20), time_to_live)
    complete(history, ["failed"], time_to_live, FAILED)
    owner = BatchOwner("q/1")
    drive(history.claim(TRIGGER, ["b1", "b2", "b3", "b4"], owner, time_to_live=time_to_live))
    pack(history, client)
    b1, b2, b3, failed = look_up(history, "b1", "b2", "b3", "failed")
    assert b1 and b2 and b3 and failed  # noqa: PT018  (all there)

    assert drive(history.forget(TRIGGER, "u1"))
    assert not drive(history.forget(TRIGGER, "u1"))
    retried = drive(history.take_over(TRIGGER, "failed", "worker-2", None, failed.fence, failed=True))
    settle(history, ["b1"], [b1.fence], FAILED)
    assert drive(history.release(TRIGGER, "b2", b2.fence))
    adopted = drive(history.adopt(TRIGGER, [("b3", b3.fence)], BatchOwner("q/2"), time_to_live=time_to_live))
    assert drive(history.settle_batch(TRIGGER, owner, OK))

    assert retried is not None
    assert adopted == [True]
    changed = outcomes(history, "u1", "failed", "b1", "b2", "b3", "b4")
    assert changed == [None, STARTED, FAILED, None, STARTED, OK]
    assert set(outcomes(history, *names(20)[2:])) == {OK}
    assert len(drive(history.scan(TRIGGER)).entries) == 19 + 4


def test_a_batch_goes_on_claiming_in_its_packed_slice(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    owner = BatchOwner("q/1")
    complete(history, names(20), time_to_live)
    drive(history.claim(TRIGGER, names(150, "a"), owner, time_to_live=time_to_live))
    pack(history, client)

    claims = drive(history.claim(TRIGGER, [*names(20), *names(150, "a"), *names(100, "b")], owner))
    again = drive(history.claim(TRIGGER, names(100, "b"), BatchOwner("q/2")))

    assert [claimed.found is not None for claimed in claims] == [True] * 20 + [False] * 250
    assert all(claimed.found for claimed in again)
    assert drive(history.settle_batch(TRIGGER, owner, OK))
    assert set(outcomes(history, *names(150, "a"), *names(100, "b"))) == {OK}
    assert len(drive(history.scan(TRIGGER)).entries) == 270


def test_expired_entries_are_purged_from_packed_buckets(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, names(300), time_to_live)
    pack(history, client)
    age(client, TRIGGER)
    for bucket in buckets(client):
        begin_two_steps_earlier(client, bucket)

    assert set(outcomes(history, *names(300))) == {None}
    assert drive(history.purge(TRIGGER)) == 300

    assert drive(history.stats(TRIGGER)).completed == 0
    assert {client.strlen(bucket) for bucket in buckets(client)} == {NUMBER}


def begin_two_steps_earlier(client: Any, bucket: bytes, first_ones: int | None = None) -> None:
    """Let all or the first entries start two steps earlier, so that their time to live has passed."""
    content = bytearray(client.get(bucket))
    count = int.from_bytes(content[:NUMBER], "big") if first_ones is None else first_ones
    first = NUMBER + int.from_bytes(content[:NUMBER], "big") + SHORT_DIGEST_SIZE - 1
    for at in range(first, first + count * REST, REST):
        content[at : at + 2] = (int.from_bytes(content[at : at + 2], "big") - 2).to_bytes(2, "big")
    client.set(bucket, bytes(content), keepttl=True)


@pytest.mark.parametrize("is_packed", [False, True])
def test_entries_of_a_purged_batch_are_not_counted(
    history: RedisHistory, client: Any, time_to_live: timedelta, *, is_packed: bool
) -> None:
    """Their entries stay in the buckets until the slice ends, but the record with their state is gone."""
    of_batch = names(100)
    drive(history.claim(TRIGGER, of_batch, BatchOwner("q/1"), time_to_live=time_to_live))
    assert drive(history.settle_batch(TRIGGER, BatchOwner("q/1"), OK))
    age(client, TRIGGER)
    if is_packed:
        drive(history.purge(TRIGGER))
    age(client, TRIGGER)

    assert drive(history.purge(TRIGGER)) == 100

    assert set(outcomes(history, *of_batch)) == {None}
    assert drive(history.stats(TRIGGER)).completed == 0


def test_few_expired_entries_of_a_packed_bucket_wait_for_more(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    """A purge rewrites the whole packed bucket, so it waits until many entries have expired."""
    complete(history, names(40), time_to_live)
    pack(history, client)
    age(client, TRIGGER)
    (bucket,) = buckets(client)
    begin_two_steps_earlier(client, bucket, 4)
    content = client.get(bucket)

    assert drive(history.purge(TRIGGER)) == 0

    assert [outcome is None for outcome in sorted(outcomes(history, *names(40)), key=str)].count(True) == 4
    assert client.get(bucket) == content


def test_an_entry_that_cannot_be_read_stays_in_doubt(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, ["u1", "u2"], time_to_live)
    (bucket,) = buckets(client)
    client.hset(bucket, short_digest("u1"), "written by another program")
    client.hset(bucket, "foreign", "field")

    pack(history, client)

    assert outcomes(history, "u1", "u2", "u3") == [STARTED, OK, None]
    assert len(drive(history.scan(TRIGGER)).entries) == 2


def sampled_in_even_buckets(*counts: int) -> Iterator[list[str]]:
    """Yield lists of uuids: each counts as 16 entries, and belongs to a bucket with an even number."""
    digests = {uuid: short_digest(uuid) for uuid in names(5000)}
    sampled = iter([uuid for uuid, key in digests.items() if key[0] >= 0xF0 and key[3] % 2 == 0])
    for count in counts:
        yield list(islice(sampled, count))


def test_a_forgotten_entry_stays_absent_after_half_of_a_split_failed(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    """Bucket 2 was added from bucket 0. Bucket 3 was not added, because bucket 1 was lost."""
    sampled = [
        uuid for uuid in names(3000) if short_digest(uuid)[0] >= 0xF0 and short_digest(uuid)[3] % 2 == 0
    ]
    first, more, rest = sampled[:5], sampled[5:25], sampled[25:30]
    complete(history, first, time_to_live)
    assert len(buckets(client)) == 2
    lost, owner = buckets(client)[1], BatchOwner("q/1")
    saved = client.dump(lost)
    client.delete(lost)
    with pytest.raises(HistoryLostError, match=lost.decode()):
        drive(history.claim(TRIGGER, more, owner, time_to_live=time_to_live))
    moved = next(uuid for uuid in first if short_digest(uuid)[3] % 4 == 2)

    assert drive(history.forget(TRIGGER, moved))
    client.restore(lost, 0, saved)
    drive(history.claim(TRIGGER, rest, owner, time_to_live=time_to_live))

    assert len(buckets(client)) > 2
    assert outcomes(history, moved) == [None]
    assert [outcome for outcome in outcomes(history, *first) if outcome] == [OK] * 4
    assert set(outcomes(history, *more, *rest)) == {STARTED}


def test_a_forgotten_entry_stays_absent_after_a_claim_of_a_batch_failed_at_its_count(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    first, more, rest = sampled_in_even_buckets(5, 20, 5)
    complete(history, first, time_to_live)
    owner = BatchOwner("q/1")
    moved = next(uuid for uuid in first if short_digest(uuid)[3] % 4 == 2)

    client.execute_command("ACL", "SETUSER", "default", "-hincrby")
    try:
        with pytest.raises(NotPermittedError):
            drive(history.claim(TRIGGER, more, owner, time_to_live=time_to_live))
    finally:
        client.execute_command("ACL", "SETUSER", "default", "+@all")
    assert drive(history.forget(TRIGGER, moved))
    drive(history.claim(TRIGGER, [*more, *rest], owner, time_to_live=time_to_live))

    assert len(buckets(client)) > 2
    assert outcomes(history, moved) == [None]


@pytest.mark.parametrize("is_released", [False, True])
def test_rows_of_a_claim_that_failed_half_way_do_not_make_a_count_negative(
    history: RedisHistory, client: Any, time_to_live: timedelta, *, is_released: bool
) -> None:
    owner, rows = BatchOwner("q/1"), names(20, "row")
    complete(history, names(5), time_to_live)
    client.execute_command("ACL", "SETUSER", "default", "-hincrby")
    try:
        with pytest.raises(NotPermittedError):
            drive(history.claim(TRIGGER, rows, owner, time_to_live=time_to_live))
    finally:
        client.execute_command("ACL", "SETUSER", "default", "+@all")
    for row in rows:
        assert drive(history.forget(TRIGGER, row))

    deleted = 0
    if is_released:
        assert drive(history.settle_batch(TRIGGER, owner, None))
    else:
        age(client, TRIGGER)
        age(client, TRIGGER)
        deleted = drive(history.purge(TRIGGER))

    assert deleted in {0, 5}  # the completed ones live until the end of their step
    assert drive(history.stats(TRIGGER)).completed == 5 - deleted


def test_a_forgotten_entry_stays_absent_after_another_entry_of_its_call_could_not_be_settled(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    """Its settlement begins the present slice. The other one needs a lost bucket of the earlier slice."""
    done, even, (next_one,) = sampled_in_even_buckets(5, 1, 1)
    complete(history, done, time_to_live)
    odd = [uuid for uuid in names(50, "odd") if short_digest(uuid)[3] % 2][:1]
    odd_fences = claim(history, odd, time_to_live)
    pack(history, client)
    fences = claim(history, [*even, next_one], time_to_live)
    lost = buckets(client)[1]
    saved = client.dump(lost)
    client.delete(lost)
    with pytest.raises(HistoryLostError, match=lost.decode()):
        settle(history, [*even, *odd], [fences[0], *odd_fences])

    while drive(history.forget(TRIGGER, even[0])):
        pass
    client.restore(lost, 0, saved)
    settle(history, [next_one], fences[1:])

    assert outcomes(history, *even, *odd, next_one) == [None, STARTED, OK]


def test_short_fields_of_other_programs_keep_no_bucket_from_being_split(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, ["first"], time_to_live)
    (bucket,) = buckets(client)
    client.hset(bucket, "x", "of another program")

    complete(history, names(300), time_to_live)
    drive(history.claim(TRIGGER, names(200, "b"), BatchOwner("q/1"), time_to_live=time_to_live))

    assert len(buckets(client)) > 2
    assert set(outcomes(history, *names(300))) == {OK}
    assert len(drive(history.scan(TRIGGER)).entries) == 501


def test_a_lost_packed_bucket_is_an_error_and_not_begun_again(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    bucket, fence = pack_before_late(history, client, ["u1"], time_to_live)
    client.delete(bucket)

    for ask in questions(history, fence):
        with pytest.raises(HistoryLostError, match=bucket.decode()):
            ask()

    drive(history.purge(TRIGGER))
    assert not client.exists(bucket)
    client.hset(bucket, "", "")  # as docs/how-to/run-on-redis.md accepts the loss
    assert outcomes(history, "u1", "late") == [None, STARTED]
    settle(history, ["late"], [fence])
    assert outcomes(history, "late") == [OK]


def test_a_bucket_that_is_lost_before_it_is_packed_stays_lost(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, names(300), time_to_live)
    age(client, TRIGGER)
    lost = buckets(client)[0]
    client.delete(lost)

    drive(history.purge(TRIGGER))

    assert not client.exists(lost)
    assert set(forms(client)) == {b"string"}
    with pytest.raises(HistoryLostError, match=lost.decode()):
        drive(history.claim(TRIGGER, names(150), "worker-2"))


#: Others have damaged a packed bucket with twenty entries in these ways.
WITHOUT_ALL_TAGS: list[Callable[[bytes], bytes]] = [
    lambda _: b"",
    lambda content: content[:1],
    lambda content: content[:NUMBER],
    lambda content: content[: NUMBER + 19],
    lambda _: b"written by another program",
]


@pytest.mark.parametrize("broken", WITHOUT_ALL_TAGS)
def test_a_packed_bucket_without_all_tags_is_an_error(
    history: RedisHistory, client: Any, time_to_live: timedelta, broken: Callable[[bytes], bytes]
) -> None:
    bucket, fence = pack_before_late(history, client, names(20), time_to_live)
    content = client.get(bucket)
    client.set(bucket, broken(content), keepttl=True)

    for ask in [*questions(history, fence), *whole_questions(history, "u1")]:
        with pytest.raises(HistoryBrokenError, match=bucket.decode()) as caught:
            ask()
        assert "run-on-redis.md" in str(caught.value)

    assert client.get(bucket) == broken(content)
    client.set(bucket, content, keepttl=True)
    assert set(outcomes(history, *names(20))) == {OK}


def whole_questions(history: RedisHistory, uuid: str) -> Sequence[Callable[[], object]]:
    """Return calls that need all entries of a bucket."""
    return (
        lambda: drive(history.scan(TRIGGER)),
        lambda: drive(history.forget(TRIGGER, uuid)),
        lambda: drive(history.stats(TRIGGER)),
    )


def test_an_entry_of_a_packed_bucket_that_was_cut_off_is_never_absent(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    uuids = names(20)
    complete(history, uuids, time_to_live)
    fences = claim(history, ["late"], time_to_live)
    pack(history, client)
    (bucket,) = buckets(client)
    content = client.get(bucket)
    broken_entries: list[int] = []

    for left in range(NUMBER + len(uuids), len(content), 7):
        client.set(bucket, content[:left], keepttl=True)
        broken_entries.append(0)
        for uuid in uuids:
            try:
                assert outcomes(history, uuid) == [OK]
            except HistoryBrokenError:
                broken_entries[-1] += 1
        for ask in (questions(history, fences[0])[-1], whole_questions(history, uuids[0])[0]):
            with pytest.raises(HistoryBrokenError, match=bucket.decode()):
                ask()
        assert client.get(bucket) == content[:left]

    assert broken_entries[0] == 20
    assert broken_entries[-1] == 1
    assert broken_entries == sorted(broken_entries, reverse=True)


def test_a_packed_bucket_with_more_than_its_entries_is_not_written(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    bucket, fence = pack_before_late(history, client, names(20), time_to_live)
    longer = client.get(bucket) + b"more"
    client.set(bucket, longer, keepttl=True)

    assert set(outcomes(history, *names(20))) == {OK}
    for ask in (questions(history, fence)[-1], *whole_questions(history, "u1")):
        with pytest.raises(HistoryBrokenError, match=bucket.decode()):
            ask()
    assert client.get(bucket) == longer


def test_a_key_of_another_type_in_place_of_a_bucket_is_an_error(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    bucket, fence = pack_before_late(history, client, ["u1"], time_to_live)
    client.delete(bucket)
    client.rpush(bucket, "of another program")

    for ask in [*questions(history, fence), *whole_questions(history, "u1")]:
        with pytest.raises(HistoryBrokenError, match=bucket.decode()):
            ask()


def test_a_hash_that_others_began_in_place_of_a_packed_bucket_is_an_error(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    bucket, fence = pack_before_late(history, client, ["u1"], time_to_live)
    client.delete(bucket)
    client.hset(bucket, b"0" * SHORT_DIGEST_SIZE, b"12345")

    for ask in questions(history, fence)[:2]:
        with pytest.raises(HistoryBrokenError, match=bucket.decode()):
            ask()


def questions(history: RedisHistory, fence: int) -> Sequence[Callable[[], object]]:
    """Return calls that need the only bucket."""
    return (
        lambda: drive(history.claim(TRIGGER, ["u1", "u99"], "worker-2")),
        lambda: drive(history.claim(TRIGGER, ["u1", "u99"], BatchOwner("q/1"))),
        lambda: look_up(history, "u1"),
        lambda: drive(history.complete(TRIGGER, "late", fence)),
    )


def test_entries_are_found_with_a_field_meta_from_before_the_packing(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, names(300), time_to_live)
    age(client, TRIGGER)
    meta = client.hget(HISTORY, "meta")
    drive(history.purge(TRIGGER))
    client.hset(HISTORY, "meta", meta)

    assert set(outcomes(history, *names(300))) == {OK}
    assert all(claimed.found for claimed in drive(history.claim(TRIGGER, names(300), BatchOwner("q/1"))))
    drive(history.purge(TRIGGER))
    assert set(outcomes(history, *names(300))) == {OK}
    assert drive(history.stats(TRIGGER)).completed == 300


def test_entries_are_written_with_a_field_meta_from_before_the_packing(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    """An operator has restored an old copy of the field. It does not count the packed buckets."""
    owner, late = BatchOwner("q/1"), names(200, "late")
    complete(history, names(300), time_to_live)
    drive(history.claim(TRIGGER, ["a"], owner, time_to_live=time_to_live))
    fences = claim(history, late, time_to_live)
    age(client, TRIGGER)
    meta = client.hget(HISTORY, "meta")
    drive(history.purge(TRIGGER))
    client.hset(HISTORY, "meta", meta)

    settle(history, late, fences)
    claims = drive(history.claim(TRIGGER, [*names(50), *names(150, "b")], owner))

    assert [claimed.found is None for claimed in claims] == [False] * 50 + [True] * 150
    assert drive(history.settle_batch(TRIGGER, owner, FAILED))
    assert set(outcomes(history, *names(300), *late)) == {OK}
    assert set(outcomes(history, "a", *names(150, "b"))) == {FAILED}
    assert drive(history.stats(TRIGGER)).completed == 651


def test_buckets_are_added_over_packed_ones_that_the_field_meta_does_not_list(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    complete(history, ["u0"], time_to_live)
    late, later = names(200, "late"), names(1000, "later")
    fences = claim(history, late, time_to_live)
    later_fences = [
        fence for n in range(0, 1000, 200) for fence in claim(history, later[n : n + 200], time_to_live)
    ]
    age(client, TRIGGER)
    meta = client.hget(HISTORY, "meta")
    settle(history, late, fences)
    drive(history.purge(TRIGGER))
    assert forms(client).count(b"string") > 1
    client.hset(HISTORY, "meta", meta)

    settle(history, later, later_fences)

    assert len(buckets(client)) > 8
    assert set(outcomes(history, "u0", *later)) == {OK}
    assert set(outcomes(history, *late)) == {OK}


def test_a_run_ends_after_the_loss_of_the_field_meta_was_accepted(
    history: RedisHistory, client: Any, time_to_live: timedelta
) -> None:
    """Its slice begins again, over the old packed buckets."""
    complete(history, names(300), time_to_live)
    late = names(100, "late")
    fences = claim(history, late, time_to_live)
    pack(history, client)

    client.hdel(HISTORY, "meta")
    with pytest.raises(HistoryLostError, match=HISTORY):
        settle(history, late, fences)
    client.hdel(f"{HISTORY}:origin", "epoch")
    settle(history, late, fences)

    assert set(outcomes(history, *late)) == {OK}
    client.hdel(HISTORY, "meta")
    with pytest.raises(HistoryLostError, match=HISTORY):
        outcomes(history, "late1")


@pytest.mark.parametrize("buckets_allowed", [0, 1])
def test_packing_that_is_refused_half_way_loses_nothing(
    history: RedisHistory, client: Any, time_to_live: timedelta, buckets_allowed: int
) -> None:
    complete(history, names(600), time_to_live)
    age(client, TRIGGER)
    allowed = [f"~{HISTORY}", f"~{HISTORY}:[bo]*", *([f"~{HISTORY}:*:0"] if buckets_allowed else [])]
    client.execute_command("ACL", "SETUSER", "default", "resetkeys", "%R~*", *allowed)
    try:
        with pytest.raises(NotPermittedError):
            drive(history.purge(TRIGGER))
        assert set(outcomes(history, *names(600))) == {OK}
    finally:
        client.execute_command("ACL", "SETUSER", "default", "allkeys")

    assert forms(client).count(b"string") == buckets_allowed
    assert set(outcomes(history, *names(600))) == {OK}
    drive(history.purge(TRIGGER))
    assert set(forms(client)) == {b"string"}
    assert set(outcomes(history, *names(600))) == {OK}


def test_a_server_that_is_killed_while_buckets_are_packed_has_every_entry(private_redis: RedisServer) -> None:
    history, uuids = RedisHistory.from_url(private_redis.url), names(12_000)
    with connected(private_redis.url) as client:
        time_to_live = in_the_middle_of_its_slice(client)
        complete(history, uuids, time_to_live)
        age(client, TRIGGER)
        expiries = {bucket: client.pexpiretime(bucket) for bucket in buckets(client)}
    packing = Thread(target=purge_until_it_fails, args=(private_redis.url,))

    packing.start()
    with connected(private_redis.url) as client:
        (first_to_be_packed,) = (bucket for bucket in expiries if bucket.endswith(b":0"))
        while client.type(first_to_be_packed) != b"string":
            pass
    private_redis.kill()
    packing.join()
    private_redis.start()

    with connected(private_redis.url) as client:
        assert set(forms(client)) == {b"hash", b"string"}
        assert set(outcomes(history, *uuids)) == {OK}
        drive(history.purge(TRIGGER))
        assert set(forms(client)) == {b"string"}
        assert {bucket: client.pexpiretime(bucket) for bucket in buckets(client)} == expiries
    assert set(outcomes(history, *uuids)) == {OK}
    drive(history.close())


def purge_until_it_fails(url: str) -> None:
    """Purge as a consumer does, until its server is away."""
    history = RedisHistory.from_url(url)
    with suppress(HistoryUnavailableError):
        drive(history.purge(TRIGGER))
    drive(history.close())


def test_others_claim_and_settle_while_buckets_are_packed(
    history: RedisHistory, redis_url: str, client: Any, time_to_live: timedelta
) -> None:
    """Each call is atomic, so the calls of both sides take turns."""
    done, late, other = names(6000), names(CLAIM_BATCH, "late"), RedisHistory.from_url(redis_url)
    complete(history, done, time_to_live)
    fences = claim(history, late, time_to_live)
    age(client, TRIGGER)
    cursor, settled, mixed = None, 0, 0

    while True:
        _, cursor = drive(other.purge_some(TRIGGER, cursor))
        mixed += set(forms(client)) == {b"hash", b"string"}
        settle(history, late[settled : settled + 5], fences[settled : settled + 5])
        settled += 5
        assert set(outcomes(history, *done[settled::97], *late[:settled])) == {OK}
        claims = drive(history.claim(TRIGGER, [done[settled], f"new{settled}"], "worker-2"))
        assert [claimed.found is None for claimed in claims] == [False, True]
        if cursor is None:
            break

    assert mixed > 3
    assert settled <= CLAIM_BATCH
    assert set(outcomes(history, *done, *late[:settled])) == {OK}
    assert set(outcomes(history, *late[settled:])) == {STARTED}
    assert drive(history.stats(TRIGGER)).completed == 6000 + settled
    drive(other.close())


@pytest.mark.parametrize("layout", [0, 2])
def test_data_of_another_layout_are_refused(
    history: RedisHistory, client: Any, time_to_live: timedelta, layout: int
) -> None:
    complete(history, ["u1"], time_to_live)
    fences = claim(history, ["late"], time_to_live)
    meta = client.hget(HISTORY, "meta")
    assert int.from_bytes(meta[:8], "big") > 2**53  # versions without a layout refuse such a fence
    other = bytes([layout]) + meta[1:]
    client.hset(HISTORY, "meta", other)

    asks: list[Callable[[], object]] = [lambda: drive(history.purge(TRIGGER))]
    for ask in [*questions(history, fences[0]), *asks]:
        with pytest.raises(
            HistoryLayoutError, match=f"has the layout {layout}, and this version reads only 1"
        ):
            ask()

    assert client.hget(HISTORY, "meta") == other
    client.hset(HISTORY, "meta", meta)
    assert outcomes(history, "u1", "late") == [OK, STARTED]
