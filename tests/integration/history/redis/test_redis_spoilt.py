"""If others write into the keys of a history in Redis, only the damaged entries suffer."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from history import (
    Entry,
    EntryOutcome,
    HistoryUnavailableError,
    Message,
    Parked,
    ParkedKind,
    RedisHistory,
    Settlement,
    State,
    Uuid,
)
from history.beside.control import COMMANDS, FORMER
from history.beside.parking import DECISIONS
from history.bridge import drive
from history.redis.connection.client import TRIGGERS_KEY, keys_of
from history.redis.spoilt import HistorySpoiltError
from history.store import BatchOwner, Counts, Decided, DecisionKind, OperatorDecision, Report
from history.store.records import NO_TRIGGER
from tests.fixtures.spoiling import spoil_remembered

TRIGGER = "book-order"
OTHER = "send-order"
HOUR = timedelta(hours=1)


def complete(history: RedisHistory, *uuids: str) -> None:
    claims = drive(history.claim(TRIGGER, list(uuids), "worker-1"))
    ends = [Settlement(Uuid(u), c.fence, EntryOutcome.OK) for u, c in zip(uuids, claims, strict=True)]
    assert all(drive(history.settle(TRIGGER, ends)))


def complete_other(history: RedisHistory, uuid: str) -> None:
    (claim,) = drive(history.claim(OTHER, [uuid], "worker-1"))
    assert drive(history.complete(OTHER, uuid, claim.fence))


def look_up(history: RedisHistory, uuid: str) -> Entry:
    (entry,) = drive(history.lookup(TRIGGER, [uuid]))
    assert entry is not None
    return entry


def test_a_completed_entry_is_in_doubt_and_hides_no_other(history: RedisHistory, redis_url: str) -> None:
    complete(history, "u1", "u2")
    drive(history.claim(TRIGGER, ["u3"], BatchOwner("q/1")))
    for uuid in ("u1", "u3"):
        spoil_remembered(redis_url, TRIGGER, uuid)

    claims = drive(history.claim(TRIGGER, ["u1", "u2", "u3", "u4"], "worker-2"))
    of_batch = drive(history.claim(TRIGGER, ["u1", "u2", "u5"], BatchOwner("q/2")))
    scanned = drive(history.scan(TRIGGER)).entries
    drive(history.purge(TRIGGER))
    drive(history.stats(TRIGGER))

    found = [claim.found for claim in claims]
    states = [State.STARTED, State.COMPLETED, State.STARTED, None]
    assert [entry and entry.state for entry in found] == states
    assert "cannot be read" in str(found[0] and found[0].owner)
    assert [claim.found is None for claim in of_batch] == [False, False, True]
    assert len(scanned) == 5


@pytest.mark.parametrize("outcome", [EntryOutcome.OK, EntryOutcome.FAILED, None])
def test_it_can_be_settled_and_stands_once_afterwards(
    history: RedisHistory, redis_url: str, outcome: EntryOutcome | None
) -> None:
    complete(history, "u1", "u2")
    spoil_remembered(redis_url, TRIGGER, "u1")
    spoilt = look_up(history, "u1")

    (done,) = drive(history.settle(TRIGGER, [Settlement(Uuid("u1"), spoilt.fence, outcome, spoilt.owner)]))

    (after,) = drive(history.lookup(TRIGGER, ["u1"]))
    assert done
    assert (None if after is None else after.outcome) is outcome
    assert len(drive(history.scan(TRIGGER)).entries) == (1 if outcome is None else 2)
    assert look_up(history, "u2").outcome is EntryOutcome.OK


def test_it_can_be_taken_over_and_forgotten(history: RedisHistory, redis_url: str) -> None:
    complete(history, "u1", "u2")
    for uuid in ("u1", "u2"):
        spoil_remembered(redis_url, TRIGGER, uuid)
    spoilt = look_up(history, "u1")

    taken = drive(
        history.take_over(TRIGGER, "u1", "worker-2", HOUR, spoilt.fence, expected_owner=spoilt.owner)
    )

    assert taken is not None
    assert look_up(history, "u1").owner == "worker-2"
    assert drive(history.forget(TRIGGER, "u2"))
    assert drive(history.lookup(TRIGGER, ["u2"])) == [None]


def test_the_record_of_a_batch_makes_what_it_holds_in_doubt(history: RedisHistory, client: Any) -> None:
    complete(history, "u1")
    drive(history.claim(TRIGGER, ["u2"], BatchOwner("q/1")))
    (ledger,) = keys_of(TRIGGER, "history:batches")
    for field in client.hkeys(ledger):
        if field[:2] in {b"b ", b"c "}:
            client.hset(ledger, field, b"spoilt")

    u1, u2 = (claim.found for claim in drive(history.claim(TRIGGER, ["u1", "u2"], "worker-2")))

    assert u1 is not None
    assert u1.outcome is EntryOutcome.OK
    assert u2 is not None
    assert (u2.state, u2.lease_alive) == (State.STARTED, False)
    assert len(drive(history.scan(TRIGGER)).entries) == 2
    drive(history.stats(TRIGGER))
    drive(history.purge(TRIGGER))


def test_sums_decisions_and_names_that_are_none_hide_no_others(history: RedisHistory, client: Any) -> None:
    report = Report(consumer="c", trigger=TRIGGER, counts=Counts(new=1, runs=2))
    drive(history.control.beat("token", [report]))
    parked = Parked(
        id="i", trigger_name=TRIGGER, kind=ParkedKind.IN_DOUBT, reason="?", message=Message(body="")
    )
    drive(history.parking.park([parked]))
    decision = OperatorDecision(kind=DecisionKind.DISCARD, by="me")
    drive(history.parking.decide(TRIGGER, decision, [Decided("i", None)]))
    drive(history.control.clear(trigger=TRIGGER))
    for kind in (FORMER, COMMANDS):
        client.hset(*keys_of(NO_TRIGGER, kind.name), b"\xff", b"\xff")
        client.zadd(*keys_of(NO_TRIGGER, f"{kind.name}:keys"), {b"\xff": 0})
    report = report.model_copy(update={"counts": Counts(new=1, runs=4)})
    drive(history.control.beat("token", [report]))
    client.xadd(*keys_of(TRIGGER, DECISIONS.name), {"x": b"\xff"})
    client.sadd(TRIGGERS_KEY, b"\xff")

    assert drive(history.control.overview()).statistics[TRIGGER] == Counts(runs=2)
    assert [record.by for record in drive(history.parking.decisions(TRIGGER)).records] == ["me"]
    assert TRIGGER in drive(history.triggers())


#: How to damage the field, and the problem that the error names.
SPOILS: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda _: b"", "too short"),
    (lambda _: b"spoilt", "too short"),
    (lambda _: b"a longer text that nobody expects here", "does not begin with the last fence"),
    (lambda meta: b"\xff" * len(meta), "does not begin with the last fence"),
    (lambda meta: meta[:-3], "its slice 1 is none"),
    (lambda meta: meta + b"more", "its slice 2 is none"),
    (lambda meta: meta[:16] + bytes(len(meta) - 16), "its slice 1 is none"),
]


class TestASpoiltField:
    """The field ``meta``, without which nothing is found."""

    @pytest.mark.parametrize(("spoil", "problem"), SPOILS)
    def test_it_makes_nothing_new_and_is_named(
        self, history: RedisHistory, client: Any, spoil: Callable[[bytes], bytes], problem: str
    ) -> None:
        complete(history, "u1")
        complete_other(history, "u1")
        (key,) = keys_of(TRIGGER, "history")
        meta = client.hget(key, "meta")
        spoilt = spoil(meta)
        client.hset(key, "meta", spoilt)

        for owner in ("worker-2", BatchOwner("q/1")):
            with pytest.raises(HistorySpoiltError, match=problem) as caught:
                drive(history.claim(TRIGGER, ["u1", "u2"], owner))
        with pytest.raises(HistorySpoiltError):
            drive(history.lookup(TRIGGER, ["u2"]))

        for told in (f"the field meta of the key {key}", f"there are {len(spoilt)} bytes", "run-on-redis.md"):
            assert told in str(caught.value)
        assert client.hget(key, "meta")[16:] == spoilt[16:], "a batch takes a number; nothing else is written"
        (entry,) = drive(history.lookup(OTHER, ["u1"]))
        assert entry is not None, "another trigger goes on"
        client.hset(key, "meta", meta)
        assert look_up(history, "u1").outcome is EntryOutcome.OK

    def test_its_loss_can_be_accepted(self, history: RedisHistory, client: Any) -> None:
        complete(history, "u1")
        (running,) = drive(history.claim(TRIGGER, ["u2"], "worker-1"))
        (key,) = keys_of(TRIGGER, "history")
        client.hset(key, "meta", "spoilt")

        client.hdel(key, "meta")
        client.hdel(f"{key}:origin", "epoch")

        again, held = drive(history.claim(TRIGGER, ["u3", "u2"], "worker-2"))
        assert again.fence > running.fence
        assert held.found is not None
        assert held.found.state is State.STARTED


def test_a_key_of_a_wrong_type_is_a_history_that_is_away_until_it_is_repaired(
    history: RedisHistory, client: Any
) -> None:
    complete(history, "u1")
    (key,) = keys_of(TRIGGER, "history")
    saved = client.dump(key)
    client.delete(key)
    client.set(key, "of another program")

    with pytest.raises(
        HistoryUnavailableError, match=r"wrong type .* restore this key, or delete it"
    ) as away:
        drive(history.claim(TRIGGER, ["u2"], "worker-1"))
    with pytest.raises(HistoryUnavailableError, match="wrong type"):
        drive(history.lookup(TRIGGER, ["u1"]))
    complete_other(history, "u3")
    client.restore(key, 0, saved, replace=True)

    assert "WRONGTYPE" in str(away.value.__cause__)
    assert look_up(history, "u1").outcome is EntryOutcome.OK
