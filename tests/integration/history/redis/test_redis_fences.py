"""Completed entries keep 24 bits of their fence: restarts and wrap-arounds change no comparison."""

import struct
from functools import cached_property
from typing import Any

import pytest

from history import Parked, RedisHistory
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.entry import KEPT_FENCES, EntryOutcome
from history.redis.connection.client import keys_of
from history.store import DecisionKind, OperatorDecision
from tests.fixtures.beside import kept_in
from tests.fixtures.servers.redis import connected
from triggers import Message, Trigger, trigger
from triggers.operations.running import run_parked
from triggers.pipeline.parking.decisions import decide

#: Fences move by these steps. A restarted server moves them to the microseconds since 1970. A claim adds one.
JUMPS = {"restart": 60_000_000, "wrap-around": KEPT_FENCES, "both": 3 * KEPT_FENCES + 5}


def move_fences(url: str, by: int) -> None:
    """Make a server grant higher fences, as after a restart or many claims."""
    (key,) = keys_of("book", "history")
    with connected(url) as client:
        meta = client.hget(key, "meta")
        (last,) = struct.unpack(">Q", meta[:8])
        client.hset(key, "meta", struct.pack(">Q", last + by) + meta[8:])


class Bench:
    """A trigger that fails until it is fixed."""

    def __init__(self, url: str) -> None:
        self.ran: list[str] = []
        self.broken = True
        self.book: Trigger[..., Any] = trigger("orders", name="book", history=url)(self.run)

    def run(self, message: Message) -> None:
        if self.broken:
            raise ValueError("there is no price")
        self.ran.append(str(message.uuid))

    @cached_property
    def store(self) -> KeepsBeside:
        store = self.book.open_store()
        assert store is not None
        return kept_in(store)

    def park(self, *uuids: str) -> list[Parked]:
        for uuid in uuids:
            assert self.book.handle(Message(body={}, uuid=uuid)).parked
        parked = [drive(self.store.parking.get(label.id)) for label in drive(self.store.parking.list())]
        return [one for one in parked if one is not None]


@pytest.fixture
def bench(redis_url: str) -> Any:
    bench = Bench(redis_url)
    yield bench
    bench.book.close()
    drive(bench.store.close())


@pytest.mark.parametrize("jump", JUMPS)
def test_a_failed_message_that_was_parked_before_can_be_run(bench: Bench, redis_url: str, jump: str) -> None:
    parked = bench.park("u-1", "u-2")
    move_fences(redis_url, JUMPS[jump])
    bench.broken = False

    outcomes = [drive(run_parked(bench.book, one, bench.store.parking)) for one in parked]

    assert [outcome.executed for outcome in outcomes] == [True, True]
    assert sorted(bench.ran) == ["u-1", "u-2"]
    assert drive(bench.store.parking.list()) == []


@pytest.mark.parametrize("jump", JUMPS)
def test_a_failed_message_that_was_parked_before_can_be_settled(
    bench: Bench, redis_url: str, jump: str
) -> None:
    bench.park("u-1")
    move_fences(redis_url, JUMPS[jump])
    labels = drive(bench.store.parking.labels()).labels
    decision = OperatorDecision(kind=DecisionKind.DONE, by="pat", reason="it was booked by hand")

    (verdict,) = drive(decide(labels, decision, lot=bench.store.parking, store=bench.store))

    (entry,) = drive(bench.store.lookup("book", ["u-1"]))
    assert verdict.left is None
    assert entry is not None
    assert entry.outcome is EntryOutcome.OK


@pytest.mark.parametrize("jump", JUMPS)
def test_a_message_that_somebody_has_run_since_is_left_alone(bench: Bench, redis_url: str, jump: str) -> None:
    (parked,) = bench.park("u-1")
    again = drive(run_parked(bench.book, parked, bench.store.parking))
    move_fences(redis_url, JUMPS[jump])
    bench.broken = False

    outcome = drive(run_parked(bench.book, parked, bench.store.parking))

    assert (again.executed, outcome.executed, bench.ran) == (True, False, [])


@pytest.mark.parametrize("jump", JUMPS)
def test_a_duplicate_gets_the_kept_result(redis_url: str, jump: str) -> None:
    @trigger("orders", name="book", history=redis_url, keep_result=True)
    def book(message: Message) -> str:
        return f"booked {message.uuid}"

    book.handle(Message(body={}, uuid="u-1"))
    move_fences(redis_url, JUMPS[jump])

    outcome = book.handle(Message(body={}, uuid="u-1"))

    assert (outcome.executed, outcome.result) == (False, "booked u-1")
    book.close()


@pytest.mark.parametrize("jump", JUMPS)
def test_a_claim_of_another_fence_takes_no_failed_entry_over(
    history: RedisHistory, redis_url: str, jump: str
) -> None:
    (claim,) = drive(history.claim("book", ["u-1"], "a"))
    drive(history.complete("book", "u-1", claim.fence, EntryOutcome.FAILED))
    move_fences(redis_url, JUMPS[jump])

    stale = drive(history.take_over("book", "u-1", "b", None, claim.fence + 1, failed=True))
    taken = drive(history.take_over("book", "u-1", "b", None, claim.fence, failed=True))

    assert stale is None
    assert taken is not None
    assert taken.fence > claim.fence + JUMPS[jump]
