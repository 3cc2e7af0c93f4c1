"""Joins of all time out if some messages do not come in time, over a history in memory."""

from datetime import timedelta
from typing import Any

import pytest

from history import EntryOutcome, HistoryUnavailableError, ParkedKind
from history.bridge import drive
from history.store import PeriodState
from tests.unit.triggers.pipeline.joining.joining import NAME, sent, shipping, sweep
from triggers import Cause, Status, on_retrieval_failure
from triggers.operations.running import run_parked


def test_what_waits_in_vain_is_parked_with_an_event() -> None:
    bench, ship, runs = shipping(join_timeout=timedelta(hours=1))
    heard: list[Any] = []
    subscription = on_retrieval_failure(NAME)(heard.append)
    ship.handle(sent("p", "payments"))

    bench.later(minutes=59)
    assert sweep(ship) == []
    bench.later(minutes=2)
    (outcome,) = sweep(ship)
    subscription.cancel()

    assert (outcome.rejected, outcome.parked) == (True, True)
    (parked,) = bench.parked
    assert parked.message == sent("p", "payments")
    assert parked.kind is ParkedKind.REJECTED
    assert parked.reason == ("the join of activation 'a' timed out: no message came from orders")
    assert outcome.event.cause is Cause.JOIN_TIMED_OUT
    assert (outcome.event.destination, outcome.event.destination_index) == ("payments", 1)
    assert (bench.waiting, runs.seen) == ([], [])


def test_a_message_after_the_time_out_begins_anew() -> None:
    bench, ship, runs = shipping(join_timeout=timedelta(hours=1))
    ship.handle(sent("o"))
    bench.later(hours=2)

    late = ship.handle(sent("p", "payments"))
    ship.handle(sent("o2"))
    sweep(ship)

    assert (late.join, runs.seen) == ("waiting", [["o2", "p"]])
    assert [one.uuid for one in bench.parked] == ["o"]


def test_without_a_time_out_a_part_waits_for_years() -> None:
    bench, ship, runs = shipping(join_timeout=None)
    ship.handle(sent("o"))
    bench.later(days=3650)

    assert sweep(ship) == []
    ship.handle(sent("p", "payments"))

    assert runs.seen == [["o", "p"]]


def test_what_timed_out_can_be_run_into_the_next_join() -> None:
    bench, ship, runs = shipping()
    ship.handle(sent("o"))
    bench.later(days=2)
    sweep(ship)

    first = drive(run_parked(ship, bench.parked[0], bench.history.parking))
    ship.handle(sent("p", "payments"))

    assert (first.join, bench.parked, runs.seen) == ("waiting", [], [["o", "p"]])


def test_a_copy_of_what_timed_out_is_a_duplicate() -> None:
    bench, ship, _ = shipping()
    ship.handle(sent("o"))
    bench.later(days=2)
    sweep(ship)

    assert ship.handle(sent("o")).status is Status.DUPLICATE
    assert bench.state_of("o") is EntryOutcome.FAILED
    assert len(bench.parked) == 1


def test_what_cannot_be_parked_stays_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, ship, _ = shipping()
    ship.handle(sent("o"))
    bench.later(days=2)

    async def full(*_: object) -> None:
        raise HistoryUnavailableError("parking")

    with monkeypatch.context() as patch:
        patch.setattr(bench.history.parking, "park", full)
        (first,) = sweep(ship)
    assert not first.acknowledge
    (period,) = bench.waiting
    assert period.state is PeriodState.EXPIRED
    assert sweep(ship) == [], "the next try is later"
    bench.later(seconds=6)
    (second,) = sweep(ship)

    assert second.parked
    assert (bench.waiting, len(bench.parked)) == ([], 1)
