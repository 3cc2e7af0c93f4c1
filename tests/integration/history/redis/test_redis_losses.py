"""The Redis history on a server that has lost something: a key, half of a script's writes, minutes."""

import itertools
import logging
import shutil
import struct
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from history.bridge import drive
from history.contract.common import state_of
from history.entry import EntryOutcome, Fence, Renewal, Settlement, State
from history.errors import DoubtlessError, HistoryUnavailableError
from history.message import Message, Uuid
from history.redis import RedisHistory
from history.store import BatchOwner, HistoryStore
from tests.fixtures.backups import backup_of
from tests.fixtures.servers.redis import busy, connected
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import trigger
from triggers.testing.redis_server import RedisServer

TRIGGER = "book-order"
HISTORY = f"doubtless:{{{TRIGGER}}}:history"
BATCH = BatchOwner("query-1/7")
YEAR = timedelta(days=365)

#: How the log says that a server came back with older data.
OLDER = "is older than it was: messages processed since are NEW again"

#: With this time to live all entries are in the slice that began in 1970.
LONG = 99 * YEAR


@pytest.fixture
def opened(redis_url: str) -> Iterator[Callable[[], RedisHistory]]:
    """Return a function that opens a new client of the history, without memory of earlier calls."""
    histories: list[RedisHistory] = []

    def opened() -> RedisHistory:
        histories.append(RedisHistory.from_url(redis_url))
        return histories[-1]

    yield opened
    for history in histories:
        drive(history.close())


def claim(history: HistoryStore, *uuids: str, owner: str | BatchOwner = "worker-1") -> Sequence[Fence]:
    """Claim new uuids, and return their fences."""
    claims = drive(history.claim(TRIGGER, uuids, owner, time_to_live=LONG))
    assert all(one.found is None for one in claims)
    return [one.fence for one in claims]


def lose_claims(server: RedisServer, one: RedisHistory, other: RedisHistory) -> Sequence[Fence]:
    """Save a claim of ``one``, then restart the server without the claims of ``other``. Return those."""
    claim(one, "u0")
    with connected(server.url) as client:
        client.save()
    lost = claim(other, *(f"u{n}" for n in range(1, 50)))
    server.kill()
    server.start()
    return lost


def complete(history: HistoryStore, *uuids: str) -> None:
    for first in range(0, len(uuids), 200):
        some = uuids[first : first + 200]
        ends = [
            Settlement(Uuid(uuid), fence, EntryOutcome.OK, "worker-1")
            for uuid, fence in zip(some, claim(history, *some), strict=True)
        ]
        assert all(drive(history.settle(TRIGGER, ends)))


def complete_batch(history: HistoryStore, batch: BatchOwner, *uuids: str) -> None:
    claim(history, *uuids, owner=batch)
    assert drive(history.settle_batch(TRIGGER, batch, EntryOutcome.OK))


def states(history: HistoryStore, *uuids: str) -> Sequence[State | EntryOutcome | None]:
    return [state_of(entry) for entry in drive(history.lookup(TRIGGER, uuids))]


def bucket_of(client: Any, history: HistoryStore, uuid: str) -> str:
    """Return the bucket that holds a uuid: without it, the history does not find the entry."""
    for key in client.scan_iter(f"{HISTORY}:*:*"):
        kept = client.dump(key)
        client.delete(key)
        try:
            gone = states(history, uuid) == [None]
        except HistoryUnavailableError:
            gone = True
        client.restore(key, 600_000, kept)
        if gone:
            return str(key.decode())
    raise AssertionError(uuid)


class TestALostBucket:
    """A bucket was deleted by hand. An evicted or moved bucket is missing in the same way."""

    def test_the_leases_of_others_are_renewed(self, history: RedisHistory, client: Any) -> None:
        complete(history, *(f"u{n}" for n in range(300)))
        client.delete(bucket_of(client, history, "u1"))
        first, last = claim(history, "first", "last")
        renewals = [Renewal(Uuid("first"), first), Renewal(Uuid("u1"), Fence(1)), Renewal(Uuid("last"), last)]

        assert list(drive(history.renew_many(TRIGGER, renewals, YEAR))) == [True, False, True]

    def test_what_stood_there_is_not_new(self, history: RedisHistory, client: Any) -> None:
        complete(history, *(f"u{n}" for n in range(300)))
        bucket = bucket_of(client, history, "u1")
        kept = client.dump(bucket)
        client.delete(bucket)

        with pytest.raises(HistoryUnavailableError, match=bucket):
            drive(history.claim(TRIGGER, ["u1"], "worker-2"))
        with pytest.raises(HistoryUnavailableError, match=bucket):
            drive(history.claim(TRIGGER, ["u1", "new"], BATCH))
        with pytest.raises(HistoryUnavailableError, match=bucket):
            drive(history.lookup(TRIGGER, ["u1"]))

        assert not client.exists(bucket), "nothing created it again"
        client.restore(bucket, 600_000, kept)
        assert states(history, "u1") == [EntryOutcome.OK]
        assert drive(history.claim(TRIGGER, ["u1"], "worker-2"))[0].found is not None

    def test_what_stands_in_others_is_found(self, history: RedisHistory, client: Any) -> None:
        uuids = [f"u{n}" for n in range(300)]
        complete(history, *uuids)
        bucket = bucket_of(client, history, "u1")
        client.delete(bucket)

        told = 0
        for uuid in uuids:
            try:
                assert states(history, uuid) == [EntryOutcome.OK]
                told += 1
            except HistoryUnavailableError:
                pass

        assert 100 < told < 300

    def test_its_loss_can_be_accepted(self, history: RedisHistory, client: Any) -> None:
        complete(history, "u1")
        (bucket,) = client.scan_iter(f"{HISTORY}:*:*")
        expires = client.pexpiretime(bucket)
        client.delete(bucket)

        length, index = (int(part) for part in bucket.decode().split(":")[-3:-1])
        client.hset(bucket, "", "")
        client.pexpireat(bucket, (index + 3) * length + 1000)

        assert client.pexpiretime(bucket) == expires
        complete(history, "u1")

    def test_a_run_is_not_completed_into_it(self, history: RedisHistory, client: Any) -> None:
        complete(history, "first")
        (fence,) = claim(history, "u1")
        (bucket,) = client.scan_iter(f"{HISTORY}:*:*")
        client.delete(bucket)

        with pytest.raises(HistoryUnavailableError, match=bucket.decode()):
            drive(history.complete(TRIGGER, "u1", fence))

        assert not client.exists(bucket)
        assert states(history, "u1") == [State.STARTED]

    def test_it_is_not_split(self, history: RedisHistory, client: Any) -> None:
        complete(history, *(f"u{n}" for n in range(60)))
        fences = claim(history, *(f"v{n}" for n in range(199)))
        (bucket,) = client.scan_iter(f"{HISTORY}:*:*")
        kept = client.hgetall(bucket)
        client.delete(bucket)
        client.hset(bucket, b"0" * 16, b"12345")  # as a worker of a former version creates it

        with pytest.raises(HistoryUnavailableError, match=bucket.decode()):
            drive(history.complete(TRIGGER, "v0", fences[0]))

        assert client.hlen(bucket) == 1
        client.hset(bucket, mapping=kept)
        assert drive(history.complete(TRIGGER, "v0", fences[0]))

    def test_a_message_is_given_back_and_does_not_run(
        self, history: RedisHistory, client: Any, redis_url: str
    ) -> None:
        runs: list[str] = []

        @trigger("orders", name=TRIGGER, history=redis_url)
        def book(body: str) -> None:
            runs.append(body)

        message = Message(body="1", uuid=Uuid("u1"))
        assert book.handle(message).executed
        (bucket,) = client.scan_iter(f"{HISTORY}:*:*")
        kept = client.dump(bucket)
        client.delete(bucket)

        lost = book.handle(message)
        client.restore(bucket, 600_000, kept)
        healed = book.handle(message)

        assert (lost.status, lost.executed, lost.acknowledge, lost.suspend) == (None, False, False, True)
        assert bucket.decode() in str(lost.error)
        assert (healed.executed, healed.acknowledge) == (False, True)
        assert runs == ["1"]
        assert state_of(drive(history.lookup(TRIGGER, ["u1"]))[0]) is EntryOutcome.OK


def test_buckets_that_have_expired_are_not_missed(history: RedisHistory, client: Any) -> None:
    short = timedelta(seconds=1)

    def use(name: str) -> None:
        (one,) = drive(history.claim(TRIGGER, [name], "worker-1", time_to_live=short))
        assert drive(history.complete(TRIGGER, name, one.fence))
        drive(history.claim(TRIGGER, [f"held {name}"], BatchOwner(name), time_to_live=short))
        assert drive(history.settle_batch(TRIGGER, BatchOwner(name), EntryOutcome.OK))
        drive(history.purge(TRIGGER))

    use("first")
    (bucket,) = client.scan_iter(f"{HISTORY}:*:*")
    numbers = itertools.count()
    deadline = time.monotonic() + PATIENCE
    while client.exists(bucket):
        use(f"u{next(numbers)}")
        assert time.monotonic() < deadline

    assert states(history, "first", "held first") == [None, None]
    use("first")


def test_a_lost_hash_of_runs_is_not_taken_for_a_new_history(history: RedisHistory, client: Any) -> None:
    complete(history, "u1")
    kept = client.dump(HISTORY)
    client.delete(HISTORY)

    for owner in ("worker-2", BATCH):
        with pytest.raises(HistoryUnavailableError, match=HISTORY):
            drive(history.claim(TRIGGER, ["u1"], owner))

    client.restore(HISTORY, 0, kept)
    assert states(history, "u1") == [EntryOutcome.OK]


def test_a_lost_ledger_is_not_taken_for_released_batches(history: RedisHistory, client: Any) -> None:
    complete_batch(history, BATCH, "u1")
    kept = client.dump(f"{HISTORY}:batches")
    client.delete(f"{HISTORY}:batches")

    for owner in ("worker-2", BatchOwner("query-1/8")):
        with pytest.raises(HistoryUnavailableError, match=f"{HISTORY}:batches"):
            drive(history.claim(TRIGGER, ["u1"], owner))
    client.delete(f"{HISTORY}:batches")
    client.restore(f"{HISTORY}:batches", 0, kept)

    assert states(history, "u1") == [EntryOutcome.OK]


def test_a_ledger_that_was_emptied_by_the_purge_is_not_missed(history: RedisHistory, client: Any) -> None:
    short = timedelta(seconds=0.6)
    drive(history.claim(TRIGGER, ["u1"], BATCH, time_to_live=short))
    drive(history.settle_batch(TRIGGER, BATCH, EntryOutcome.OK))

    eventually(lambda: states(history, "u1") == [None])
    drive(history.purge(TRIGGER))

    assert claim(history, "u1")


ADOPTER = BatchOwner("query-1/9")
SOME = ["single", "done", "held", "new"]

#: Asks something of a history in which uuids have these fences.
Verb = Callable[[RedisHistory, Mapping[str, Fence]], Coroutine[Any, Any, object]]

#: The calls to try on a history with many entries.
VERBS: Mapping[str, Verb] = {
    "complete": lambda h, f: h.complete(TRIGGER, "single", f["single"]),
    "complete of a batch's": lambda h, f: h.complete(TRIGGER, "held", f["held"]),
    "renew": lambda h, f: h.renew(TRIGGER, "single", f["single"], YEAR),
    "renew of a batch's": lambda h, f: h.renew(TRIGGER, "held", f["held"], YEAR),
    "take over": lambda h, f: h.take_over(TRIGGER, "single", "worker-2", None, f["single"]),
    "take over of a batch's": lambda h, f: h.take_over(TRIGGER, "held", "worker-2", None, f["held"]),
    "adopt": lambda h, f: h.adopt(TRIGGER, [("single", f["single"])], ADOPTER, time_to_live=LONG),
    "adopt of a batch's": lambda h, f: h.adopt(TRIGGER, [("held", f["held"])], ADOPTER, time_to_live=LONG),
    "adopt in another slice": lambda h, f: h.adopt(
        TRIGGER, [("held", f["held"])], ADOPTER, time_to_live=YEAR
    ),
    "claim": lambda h, _: h.claim(TRIGGER, SOME, "worker-3", time_to_live=LONG),
    "claim for a batch": lambda h, _: h.claim(TRIGGER, SOME, ADOPTER, time_to_live=LONG),
    "claim for a batch again": lambda h, _: h.claim(TRIGGER, ["held", "new"], BATCH),
    "complete a batch": lambda h, _: h.settle_batch(TRIGGER, BATCH, EntryOutcome.OK),
    "complete in a slice of its own": lambda h, f: h.complete(TRIGGER, "year", f["year"]),
    "complete many": lambda h, f: h.settle(
        TRIGGER, [Settlement(Uuid(u), f[u], EntryOutcome.OK) for u in f if u.startswith("many")]
    ),
}


#: The account may not use a command, or may not write certain keys.
DENIED = {
    **{name: (f"-{name}",) for name in ("hset", "hdel", "hincrby", "hsetnx", "pexpireat", "hget", "hmget")},
    "to write runs": ("resetkeys", "%R~*", f"~{HISTORY}:*"),
    "to write the ledger": ("resetkeys", "%R~*", f"~{HISTORY}", f"~{HISTORY}:*:*", f"~{HISTORY}:origin"),
    "to write buckets": ("resetkeys", "%R~*", f"~{HISTORY}", f"~{HISTORY}:batches", f"~{HISTORY}:origin"),
    "to write the first bucket": (
        "resetkeys",
        "%R~*",
        f"~{HISTORY}",
        f"~{HISTORY}:[bo]*",
        f"~{HISTORY}:*[^0]",
    ),
    "to write other buckets": ("resetkeys", "%R~*", f"~{HISTORY}", f"~{HISTORY}:[bo]*", f"~{HISTORY}:*:0"),
}


@pytest.mark.parametrize("denied", DENIED)
@pytest.mark.parametrize("verb", VERBS)
def test_a_script_that_fails_half_way_makes_nothing_new_again(
    private: RedisServer, verb: str, denied: str
) -> None:
    with connected(private.url) as client:
        client.flushall()
        history = RedisHistory.from_url(private.url)
        complete(history, "done", *(f"done{n}" for n in range(63)))
        fences = dict(zip(["single"], claim(history, "single"), strict=True))
        fences["held"] = claim(history, "held", "other", owner=BATCH)[0]
        many = [f"many{n}" for n in range(150)]
        fences |= dict(zip(many, claim(history, *many), strict=True))
        (year,) = drive(history.claim(TRIGGER, ["year"], "worker-1", time_to_live=YEAR))
        fences["year"] = year.fence
        crowd = [f"crowd{n}" for n in range(300)]
        client.execute_command("ACL", "SETUSER", "default", "-pexpireat")  # so that no bucket is added
        for some in (crowd[:150], crowd[150:]):
            complete(history, *some)
        client.execute_command("ACL", "SETUSER", "default", "+@all")
        known = ["done", "single", "held", "other", "year", *many, *crowd]
        assert None not in states(history, *known)

        client.execute_command("ACL", "SETUSER", "default", *DENIED[denied])
        try:
            drive(VERBS[verb](history, fences))
        except DoubtlessError:
            pass
        finally:
            client.execute_command("ACL", "SETUSER", "default", "+@all", "allkeys")

        assert None not in states(history, *known)
        assert states(history, "done") == [EntryOutcome.OK]
        drive(VERBS[verb](history, fences))
        assert None not in states(history, *known)
        claims = drive(history.claim(TRIGGER, known, "somebody else"))
        assert all(one.found is not None for one in claims)
        fresh = [*claim(history, "fresh"), *claim(history, "for a batch", owner=BatchOwner("query-1/11"))]
        assert min(fresh) > max(fences.values()), "no number is spent twice"
        assert fresh[0] != fresh[1]
        drive(history.close())


def test_a_bucket_that_cannot_be_added_is_added_by_a_later_settlement(private: RedisServer) -> None:
    with connected(private.url) as client:
        client.flushall()
        history = RedisHistory.from_url(private.url)
        complete(history, "first")
        crowd = [f"crowd{n}" for n in range(400)]

        client.execute_command("ACL", "SETUSER", "default", "-pexpireat")
        complete(history, *crowd[:200])
        client.execute_command("ACL", "SETUSER", "default", "+@all")
        before = len(client.keys(f"{HISTORY}:*:*"))
        complete(history, *crowd[200:])

        assert before == 2, "the first bucket, and one that does not count yet"
        assert len(client.keys(f"{HISTORY}:*:*")) > 3
        assert states(history, *crowd) == [EntryOutcome.OK] * len(crowd)
        drive(history.close())


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), appendonly="no", save="") as server:
        yield server


def test_a_server_that_loaded_an_old_snapshot_grants_no_fence_twice_to_whom_it_does_not_know(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(tmp_path, appendonly="no", save="3600 1") as server:
        old = RedisHistory.from_url(server.url)
        lost = lose_claims(server, old, old)
        # This history was not granted any fence before, so it does not know these fences.
        young = RedisHistory.from_url(server.url)
        granted = claim(young, "u1", "u2")
        batch = claim(young, "u3", owner=BATCH)

        assert min(*granted, *batch) > max(lost)
        assert min(claim(old, "v1")) > max(*granted, *batch)
        (line,) = [one.getMessage() for one in caplog.records if one.levelno > logging.WARNING]
        assert line == f"the document history of {TRIGGER} {OLDER}"
        for history in (old, young):
            drive(history.close())


def test_a_server_that_was_restarted_under_a_client_is_noticed_before_its_next_claim(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(tmp_path, appendonly="no", save="3600 1") as server:
        one, other = RedisHistory.from_url(server.url), RedisHistory.from_url(server.url)
        lost = lose_claims(server, one, other)

        # Unlike the other history, this one was not granted a lost fence.
        assert min(claim(one, "u2", "u3")) > max(lost)
        assert min(claim(other, "u4")) > max(lost)
        for history in (one, other):
            drive(history.close())


def test_a_server_that_was_busy_when_a_client_connected_again_grants_no_fence_twice(tmp_path: Path) -> None:
    with RedisServer(tmp_path, appendonly="no", save="3600 1") as server:
        one, other = RedisHistory.from_url(server.url), RedisHistory.from_url(server.url)
        lost = lose_claims(server, one, other)

        with connected(server.url) as client, busy(client), pytest.raises(HistoryUnavailableError):
            claim(one, "u2")

        # It was not granted a lost fence, and the busy server could not tell it about the restart.
        assert min(claim(one, "u3")) > max(lost)
        for history in (one, other):
            drive(history.close())


def grown_old(client: Any) -> None:
    """Change the history so that it began a year ago, and has granted few fences since."""
    seconds, microseconds = client.time()
    began = seconds * 1_000_000 + microseconds - YEAR // timedelta(microseconds=1)
    meta = client.hget(HISTORY, "meta")
    client.hset(
        HISTORY, "meta", meta[:1] + struct.pack(">Q", began)[1:] + struct.pack(">Q", began) + meta[16:]
    )
    client.hset(f"{HISTORY}:origin", "epoch", began)


def long_ago(client: Any) -> None:
    """Make the last recorded step a year old, so that the next step is large again."""
    low = int(client.hget(f"{HISTORY}:origin", "low"))
    client.hset(f"{HISTORY}:origin", mapping={"low": low - 2**40, "server": "another"})


def test_batches_are_found_after_steps_longer_than_their_numbers(
    history: RedisHistory, opened: Callable[[], RedisHistory], client: Any
) -> None:
    complete(history, "begin")
    grown_old(client)
    uuids = [f"u{n}" for n in range(100)]
    complete_batch(opened(), BATCH, *uuids)
    (single,) = claim(opened(), "single")
    assert drive(history.complete(TRIGGER, "single", single))
    claim(opened(), "open", owner=BatchOwner("query-1/8"))
    before = max(one.fence for one in drive(history.lookup(TRIGGER, ["u0", "single", "open"])) if one)
    client.hset(f"{HISTORY}:origin", "server", "another")

    for turn in range(4):
        young = opened()
        (fence,) = claim(young, f"v{turn}")
        complete_batch(young, BatchOwner(f"query-2/{turn}"), f"w{turn}")
        assert fence - before > 2**38 or turn
        before = fence
        known = [*uuids, "single", *(f"w{n}" for n in range(turn + 1))]
        assert set(states(young, *known)) == {EntryOutcome.OK}
        assert states(young, "open") == [State.STARTED]
        claims = drive(
            young.claim(TRIGGER, [*known, "open"], BatchOwner(f"query-3/{turn}"), time_to_live=LONG)
        )
        assert all(one.found is not None for one in claims)
        assert drive(young.settle_batch(TRIGGER, BATCH, EntryOutcome.OK)), "a repeated completion succeeds"
        assert drive(young.complete(TRIGGER, "single", single)), "a repeated completion succeeds"
        long_ago(client)

    drive(history.settle_batch(TRIGGER, BatchOwner("query-1/8"), None))
    assert states(history, "open") == [None]


def test_a_released_batch_is_released_after_a_step(
    history: RedisHistory, opened: Callable[[], RedisHistory], client: Any
) -> None:
    complete(history, "begin")
    grown_old(client)
    old = opened()
    claim(old, "u1", "u2", owner=BATCH)
    client.hset(f"{HISTORY}:origin", "server", "another")
    young = opened()
    claim(young, "v1")

    assert drive(old.settle_batch(TRIGGER, BATCH, None))

    assert states(young, "u1", "u2") == [None, None]
    assert claim(young, "u1", "u2")


def test_a_client_that_knows_less_is_stepped_over_by_one_that_knows(
    history: RedisHistory, redis_url: str
) -> None:
    claim(history, "u0")
    restore = backup_of(redis_url)
    known = claim(history, "u1")
    others = RedisHistory.from_url(redis_url)
    lost = claim(others, *(f"u{n}" for n in range(2, 100)))
    restore()

    granted = claim(history, "v1", "v2")

    assert min(granted) > max(known) + 90
    assert min(granted) > max(lost)
    drive(others.close())


def restart(server: RedisServer, *, with_data_of: Path | None = None) -> None:
    """Start a server again, with its own data or with the data of a backup of its folder."""
    server.stop()
    if with_data_of is not None:
        shutil.rmtree(server.folder)
        shutil.copytree(with_data_of, server.folder)
    server.start()


def test_each_client_that_lost_something_says_so_once_after_a_server_came_back_with_a_backup(
    private_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, spared = (RedisHistory.from_url(private_redis.url) for _ in range(3))
    claim(spared, "u0")
    private_redis.stop()
    shutil.copytree(private_redis.folder, tmp_path / "backup")
    private_redis.start()
    known = [*claim(first, "u1"), *claim(second, "u2")]
    restart(private_redis, with_data_of=tmp_path / "backup")

    told: list[int] = []
    for client in (first, second, spared, first, second):
        fences = claim(client, f"v{len(told)}")
        assert min(fences) > max(known)
        told.append(caplog.text.count(OLDER))
        drive(client.close())

    assert told == [1, 2, 2, 2, 2]


def test_a_server_that_starts_again_with_all_of_its_data_is_not_called_older(
    private_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (RedisHistory.from_url(private_redis.url) for _ in range(2))
    for number in range(3):
        for name, client in (("a", first), ("b", second)):
            claim(client, f"{name}{number}", f"{name}{number}-")
        restart(private_redis)
    claim(first, "a")
    claim(second, "b")
    drive(first.close())
    drive(second.close())

    assert OLDER not in caplog.text
    assert "NEW again" not in caplog.text
