"""The Redis history on a server that is misconfigured, flushed, killed, without its scripts, or full."""

import logging
import struct
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from benchmarks.ledger_week import measure
from history import (
    ConfigurationError,
    EntryOutcome,
    Message,
    Parked,
    ParkedKind,
    RedisHistory,
    Settlement,
    State,
    Uuid,
)
from history.beside.parking import label_pages
from history.bridge import drive, drive_each
from history.contract.common import state_of
from history.store import CLAIM_BATCH, BatchOwner
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE
from triggers.testing.redis_server import RedisServer

TRIGGER = "book-order"


def complete(
    history: RedisHistory, uuids: Sequence[str], time_to_live: timedelta = timedelta(days=7)
) -> None:
    for first in range(0, len(uuids), CLAIM_BATCH):
        some = uuids[first : first + CLAIM_BATCH]
        claims = drive(history.claim(TRIGGER, some, "worker-1", time_to_live=time_to_live))
        ends = [
            Settlement(Uuid(uuid), one.fence, EntryOutcome.OK) for uuid, one in zip(some, claims, strict=True)
        ]
        assert all(drive(history.settle(TRIGGER, ends)))


def state(history: RedisHistory, uuid: str) -> State | EntryOutcome | None:
    return state_of(drive(history.lookup(TRIGGER, [uuid]))[0])


def levels(caplog: pytest.LogCaptureFixture) -> Sequence[int]:
    return [record.levelno for record in caplog.records]


@pytest.mark.parametrize(
    "policy",
    [
        *("allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu"),
        *("volatile-random", "volatile-ttl"),
    ],
)
def test_a_server_that_evicts_is_refused_and_nothing_is_written(tmp_path: Path, policy: str) -> None:
    with RedisServer(tmp_path, **{"maxmemory-policy": policy}) as server, connected(server.url) as client:
        history = RedisHistory.from_url(server.url)

        with pytest.raises(ConfigurationError, match=f"maxmemory-policy: {policy}"):
            drive(history.claim(TRIGGER, ["u1"], "worker-1"))

        assert client.dbsize() == 0
        drive(history.close())


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        ({"appendonly": "no", "save": ""}, 1),
        ({"appendonly": "no", "save": "3600 1"}, 0),
        ({"appendonly": "yes", "save": ""}, 0),
    ],
)
def test_a_server_that_keeps_nothing_on_disk_is_warned_of_once(
    tmp_path: Path, settings: dict[str, str], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(tmp_path, **settings) as server:
        history = RedisHistory.from_url(server.url)

        complete(history, ["u1"])
        complete(history, ["u2"])

        assert levels(caplog) == [logging.WARNING] * warnings
        drive(history.close())


def test_a_flushed_server_is_noticed_once_and_loudly(
    history: RedisHistory, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    complete(history, ["u1"])
    client.flushall()

    (again,) = drive(history.claim(TRIGGER, ["u1"], "worker-2"))
    complete(history, ["u2"])

    assert again.found is None
    assert levels(caplog) == [logging.CRITICAL]
    assert f"the document history of {TRIGGER} was flushed or replaced" in caplog.text
    assert drive(history.triggers()) == [TRIGGER], "the name was noted again"


def test_a_fence_still_grows_after_a_flush(history: RedisHistory, client: Any) -> None:
    (before,) = drive(history.claim(TRIGGER, ["u1"], "worker-1"))
    client.flushall()

    (after,) = drive(history.claim(TRIGGER, ["u1"], "worker-2"))

    assert after.fence > before.fence
    assert not drive(history.complete(TRIGGER, "u1", before.fence))
    assert state(history, "u1") is State.STARTED


def test_settling_on_a_flushed_server_writes_nothing(history: RedisHistory, client: Any) -> None:
    (claim,) = drive(history.claim(TRIGGER, ["u1"], "worker-1"))
    client.flushall()

    assert not drive(history.complete(TRIGGER, "u1", claim.fence))

    assert client.dbsize() == 0


def test_a_server_killed_and_started_again_remembers(
    private_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    history = RedisHistory.from_url(private_redis.url)
    complete(history, [f"done{n}" for n in range(300)])
    drive(history.claim(TRIGGER, ["started"], "worker-1"))
    drive(history.claim(TRIGGER, [f"held{n}" for n in range(300)], BatchOwner("query-1/7")))
    drive(history.settle_batch(TRIGGER, BatchOwner("query-1/7"), EntryOutcome.OK))

    private_redis.kill()
    private_redis.start()

    assert state(history, "started") is State.STARTED
    assert {state(history, f"{kind}{n}") for kind in ("done", "held") for n in range(300)} == {
        EntryOutcome.OK
    }
    assert drive(history.stats(TRIGGER)).completed == 600
    assert caplog.records == [], "it is the same data set"
    drive(history.close())


@pytest.mark.parametrize("size", [1, 1000])
def test_scripts_are_sent_again_where_redis_forgot_them(
    history: RedisHistory, client: Any, size: int
) -> None:
    complete(history, ["u0"])
    client.script_flush()

    complete(history, [f"u{n}" for n in range(1, 1 + size)])

    assert {state(history, f"u{n}") for n in range(1 + size)} == {EntryOutcome.OK}


def test_an_entry_costs_less_than_32_bytes(history: RedisHistory, client: Any) -> None:
    complete(history, ["first"])
    empty = client.info("memory")["used_memory"]

    complete(history, [f"5f0c6b1e-{n}" for n in range(100_000)])

    assert (client.info("memory")["used_memory"] - empty) / 100_000 < 32
    assert drive(history.stats(TRIGGER)).completed == 100_001


def test_entries_vanish_from_the_server_by_themselves(history: RedisHistory, client: Any) -> None:
    complete(history, [f"u{n}" for n in range(1000)], time_to_live=timedelta(seconds=1))
    buckets = f"doubtless:{{{TRIGGER}}}:history:*:*"
    assert len(list(client.scan_iter(buckets))) > 5

    deadline = time.monotonic() + PATIENCE
    while list(client.scan_iter(buckets)):
        assert time.monotonic() < deadline, "buckets outlive their slice"
        time.sleep(0.05)

    assert state(history, "u1") is None
    assert drive(history.stats(TRIGGER)).completed == 0
    complete(history, ["u1"])
    assert state(history, "u1") is EntryOutcome.OK


def test_what_a_released_batch_left_hides_nothing(history: RedisHistory) -> None:
    complete(history, ["first"], time_to_live=timedelta(days=2))
    batch = BatchOwner("query-1/7")
    drive(history.claim(TRIGGER, ["u1", "u2"], batch, time_to_live=timedelta(days=1)))
    drive(history.settle_batch(TRIGGER, batch, None))

    complete(history, ["u1"], time_to_live=timedelta(days=2))

    assert state(history, "u1") is EntryOutcome.OK
    assert drive(history.claim(TRIGGER, ["u1"], "worker-2"))[0].found is not None


def test_what_a_released_batch_left_is_not_counted(history: RedisHistory) -> None:
    batch = BatchOwner("query-1/7")
    drive(history.claim(TRIGGER, ["u1", "u2", "u3"], batch))
    drive(history.settle_batch(TRIGGER, batch, None))
    assert drive(history.stats(TRIGGER)).completed == 0

    complete(history, ["u1", "u4"])

    assert drive(history.stats(TRIGGER)).completed == 2


def test_a_batch_meets_what_lives_for_another_time(history: RedisHistory) -> None:
    complete(history, ["completed"], time_to_live=timedelta(days=2))
    other = BatchOwner("query-1/7")
    drive(history.claim(TRIGGER, ["held"], other, time_to_live=timedelta(days=3)))

    claims = drive(history.claim(TRIGGER, ["completed", "held", "new"], BatchOwner("query-1/8")))

    met = [None if claim.found is None else claim.found.state for claim in claims]
    assert met == [State.COMPLETED, State.STARTED, None]


def test_what_batches_claim_stays_in_small_buckets(history: RedisHistory, client: Any) -> None:
    for batch in range(5):
        held = [f"held{batch}-{n}" for n in range(2000)]
        drive(history.claim(TRIGGER, held, BatchOwner(f"query-1/{batch}")))

    buckets = list(client.scan_iter(f"doubtless:{{{TRIGGER}}}:history:*:*"))
    assert sum(client.hlen(bucket) - 1 for bucket in buckets) == 10_000
    assert max(client.hlen(bucket) for bucket in buckets) < 200


def test_no_bucket_lives_for_ever(history: RedisHistory, client: Any) -> None:
    uuids = [f"u{n}" for n in range(2000)]
    complete(history, uuids)
    for uuid in uuids[:300]:
        drive(history.forget(TRIGGER, uuid))
    drive(history.claim(TRIGGER, [f"held{n}" for n in range(500)], BatchOwner("query-1/7")))
    drive(history.settle_batch(TRIGGER, BatchOwner("query-1/7"), None))
    complete(history, uuids[:300])

    buckets = list(client.scan_iter(f"doubtless:{{{TRIGGER}}}:history:*:*"))

    assert len(buckets) > 10
    assert all(client.pttl(key) > 0 for key in buckets)


def test_runs_of_any_length_are_kept_in_few_slices(history: RedisHistory, client: Any) -> None:
    uuids = [f"u{n}" for n in range(40)]
    claims = drive(history.claim(TRIGGER, uuids, "worker-1", time_to_live=timedelta(minutes=1)))
    for n, (uuid, claim) in enumerate(zip(uuids, claims, strict=True)):
        lease = timedelta(seconds=10 * n + 1)
        assert drive(history.renew(TRIGGER, uuid, claim.fence, lease))
        assert drive(history.complete(TRIGGER, uuid, claim.fence))

    buckets = list(client.scan_iter(f"doubtless:{{{TRIGGER}}}:history:*:*"))

    assert {state(history, uuid) for uuid in uuids} == {EntryOutcome.OK}
    assert len(buckets) <= 6, "one for each doubling of a minute up to a quarter of an hour"
    assert all(client.pttl(key) > 0 for key in buckets)
    ends = [entry.expires_at - entry.started_at for entry in drive(history.lookup(TRIGGER, uuids)) if entry]
    assert ends[-1] > timedelta(minutes=13)


def test_the_start_of_a_completed_entry_is_rounded_down_and_does_not_move(history: RedisHistory) -> None:
    (claim,) = drive(history.claim(TRIGGER, ["u1"], "worker-1"))
    (claimed,) = drive(history.lookup(TRIGGER, ["u1"]))
    assert drive(history.complete(TRIGGER, "u1", claim.fence))

    (first,) = drive(history.lookup(TRIGGER, ["u1"]))
    time.sleep(0.01)
    (second,) = drive(history.lookup(TRIGGER, ["u1"]))

    assert claimed is not None
    assert first is not None
    assert second is not None
    assert claimed.started_at - timedelta(seconds=19) < first.started_at <= claimed.started_at
    assert first.expires_at >= claimed.expires_at
    assert second.started_at == first.started_at
    assert (claimed.started_about, first.started_about) == (False, True)


def write_ledger(client: Any, batches: int, *, expires: int, state: bytes = b"O") -> None:
    """Write the ledger of ``batches`` batches of one row each."""
    number = 1_700_000_000_000_000
    record = struct.Struct(">QQQQ")
    for first in range(0, batches, 5000):
        fields: dict[str, bytes] = {}
        for n in range(first, first + 5000):
            token = f"query/{n}"
            held = record.pack(number + n, expires - 1000, 0, expires) + token.encode()
            fields |= {
                f"b {number + n}": state + held,
                f"c {number + n}": b"1",
                f"o {token}": b"%d" % (number + n),
            }
        client.hset(f"doubtless:{{{TRIGGER}}}:history:batches", mapping=fields)


#: One script may read so many fields of a hash.
PAGE = 1000


def test_a_ledger_of_any_length_is_purged_and_counted_in_bounded_pieces(
    history: RedisHistory, client: Any
) -> None:
    complete(history, ["kept"])
    now = int(client.time()[0]) * 1000
    write_ledger(client, 120_000, expires=now + 10**9, state=b"S")
    ledger = f"doubtless:{{{TRIGGER}}}:history:batches"
    fields = client.hlen(ledger)
    client.config_resetstat()

    assert drive(history.stats(TRIGGER)).started == 120_000
    counting = client.info("commandstats")
    assert counting["cmdstat_hscan"]["calls"] >= fields / PAGE / 2
    assert counting["cmdstat_hscan"]["calls"] <= counting["cmdstat_evalsha"]["calls"] + 1
    # The scripts read one field for each batch, and one call never reads more fields than fit into its pages.
    assert counting["cmdstat_hget"]["calls"] <= counting["cmdstat_evalsha"]["calls"] * 2 * PAGE

    client.config_resetstat()
    pieces = [drive(history.purge_some(TRIGGER))]
    while (cursor := pieces[-1].cursor) is not None:
        pieces.append(drive(history.purge_some(TRIGGER, cursor)))
    purging = client.info("commandstats")
    assert len(pieces) >= fields / PAGE / 2
    assert purging["cmdstat_hscan"]["calls"] <= len(pieces) + 1
    assert "cmdstat_hkeys" not in purging
    assert client.hlen(ledger) == fields, "they are all alive"


def test_what_has_expired_is_taken_out_of_a_long_ledger_piece_by_piece(
    history: RedisHistory, client: Any
) -> None:
    complete(history, ["kept"])
    now = int(client.time()[0]) * 1000
    write_ledger(client, 100_000, expires=now - 1)

    pieces = [drive(history.purge_some(TRIGGER))]
    while (cursor := pieces[-1].cursor) is not None:
        pieces.append(drive(history.purge_some(TRIGGER, cursor)))

    assert max(piece.deleted for piece in pieces) <= 2 * PAGE
    assert sum(piece.deleted for piece in pieces) == 100_000
    assert client.hlen(f"doubtless:{{{TRIGGER}}}:history:batches") == 0
    assert state(history, "kept") is EntryOutcome.OK


@pytest.mark.parametrize("kind", [redis.Redis, redis.asyncio.Redis])
def test_a_client_that_decodes_replies_is_refused(kind: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match="decode_responses"):
        RedisHistory(kind(decode_responses=True))


def test_a_url_that_asks_for_decoded_replies_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="decode_responses"):
        RedisHistory.from_url("redis://127.0.0.1/0?decode_responses=True")


def test_the_ledger_shrinks_to_what_is_alive_while_batches_go_on(private_redis: RedisServer) -> None:
    found = measure(private_redis, batches=5000, expired=2000, new=100)

    assert found.filled == 5001
    # One batch expires in each second, so some have expired since.
    assert found.alive - 600 < found.left <= found.alive


def test_a_message_that_is_removed_meanwhile_ends_no_walk_early(
    history: RedisHistory, redis_url: str
) -> None:
    parked = [
        Parked(
            id=id_, trigger_name=TRIGGER, kind=ParkedKind.REJECTED, reason="row 1", message=Message(body="")
        )
        for id_ in ("a1", "b2", "c3", "d4")
    ]
    drive(history.parking.park(parked))
    with connected(redis_url) as client:
        client.hdel(f"doubtless:{{{TRIGGER}}}:label", "c3")  # as after the keys were read

    walk = drive_each(label_pages(history.parking, TRIGGER, limit=2))

    assert [label.id for page in walk for label in page.labels] == ["d4", "b2", "a1"]
