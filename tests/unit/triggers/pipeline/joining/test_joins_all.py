"""Joins of all: which messages are stored, run, parked and reported, over a history in memory."""

from datetime import timedelta
from typing import Any

import pytest

from history import EntryOutcome, HistoryUnavailableError, ParkedKind, State
from history.bridge import drive
from history.store import Added, Addition
from resolvers import Resolution
from tests.unit.triggers.pipeline.joining.joining import (
    NAME,
    Bench,
    both_bodies,
    joining_of,
    no_pause,
    sent,
    shipping,
    sweep,
)
from triggers import (
    Cause,
    Joined,
    Message,
    NoActivationError,
    Outcome,
    PlaceTakenError,
    Retry,
    Status,
    TransientError,
)
from triggers.detection.table import Status as Verdict
from triggers.operations.running import run_parked


class TestKeeping:
    def test_a_part_is_acknowledged_and_completed_before_its_join_runs(self) -> None:
        bench, ship, runs = shipping()

        outcome = ship.handle(sent("o"))

        assert (outcome.status, outcome.executed, outcome.acknowledge) == (Status.NEW, False, True)
        assert outcome.join == "waiting"
        assert bench.state_of("o") is EntryOutcome.OK
        assert runs.seen == []

    def test_copies_of_a_part_are_dropped_before_and_after_its_join_ran(self) -> None:
        bench, ship, runs = shipping()

        ship.handle(sent("o"))
        assert ship.handle(sent("o")).status is Status.DUPLICATE
        ship.handle(sent("p", "payments"))
        assert ship.handle(sent("p", "payments")).status is Status.DUPLICATE
        assert ship.handle(sent("o")).status is Status.DUPLICATE

        assert (runs.seen, bench.waiting) == ([["o", "p"]], [])

    def test_a_part_whose_worker_died_before_it_was_kept_is_kept_by_the_next_one(self) -> None:
        bench, ship, runs = shipping()
        drive(bench.history.claim(NAME, ["o"], "who died"))

        outcome = ship.handle(sent("o"))
        ship.handle(sent("p", "payments"))

        assert (outcome.join, runs.seen, bench.parked) == ("waiting", [["o", "p"]], [])

    def test_a_message_without_activation_is_parked_with_the_remedy(self) -> None:
        bench, ship, _ = shipping()

        outcome = ship.handle(sent("o", activation=None))

        assert isinstance(outcome.error, NoActivationError)
        assert outcome.event is not None
        (parked,) = bench.parked
        assert parked.kind is ParkedKind.REJECTED
        assert "have the sender set it" in (parked.error_message or "")
        assert bench.state_of("o") is EntryOutcome.FAILED
        assert bench.waiting == []

    def test_an_activation_that_is_too_long_for_a_uuid_is_parked_and_never_joined(self) -> None:
        bench, ship, runs = shipping()
        long, longest = "x" * 8_193, "x" * 8_192

        outcomes = ship.handle_batch([sent("o", activation=long), sent("p", "payments", long)])
        ship.handle_batch([sent("o2", activation=longest), sent("p2", "payments", longest)])

        assert [(one.rejected, one.acknowledge, one.parked) for one in outcomes] == [(True, True, True)] * 2
        assert "'activation' has 8193 characters (8192 at most)" in str(outcomes[0].error)
        assert sorted(str(one.uuid) for one in bench.parked) == ["o", "p"]
        assert (runs.seen, bench.waiting) == ([["o2", "p2"]], [])

    def test_a_message_whose_join_is_spoilt_is_parked_with_the_remedy(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, ship, _runs = shipping()

        async def spoilt(*_: object) -> Added:
            return Added(Addition.SPOILT)

        with monkeypatch.context() as patch:
            patch.setattr(bench.history.joining, "add", spoilt)
            outcome = ship.handle(sent("o"))

        assert (outcome.rejected, outcome.acknowledge, outcome.suspend) == (True, True, False)
        assert "repair or delete it" in str(outcome.error)
        (parked,) = bench.parked
        assert drive(run_parked(ship, parked, bench.history.parking)).join == "waiting"

    def test_a_number_is_an_activation(self) -> None:
        _bench, ship, runs = shipping()

        number = Message(body="", uuid="o", destination="orders", properties={"activation": 7})
        ship.handle(number)
        ship.handle(sent("p", "payments", "7"))

        assert runs.seen == [["o", "p"]]

    def test_of_two_messages_for_one_place_the_second_is_parked_and_can_be_run_into_the_next_join(
        self,
    ) -> None:
        bench, ship, runs = shipping()

        ship.handle(sent("o"))
        second = ship.handle(sent("o2"))
        ship.handle(sent("p", "payments"))

        assert isinstance(second.error, PlaceTakenError)
        assert second.event is not None
        (parked,) = bench.parked
        assert (parked.uuid, runs.seen) == ("o2", [["o", "p"]])

        outcome = drive(run_parked(ship, parked, bench.history.parking))
        ship.handle(sent("p2", "payments"))

        assert (outcome.join, bench.parked) == ("waiting", [])
        assert runs.seen == [["o", "p"], ["o2", "p2"]]

    def test_a_part_that_another_worker_took_over_is_left_to_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, ship, _runs = shipping()
        joining = bench.history.joining
        add = joining.add

        async def late(trigger: str, part: Any, terms: Any, hold: Any) -> Added:
            await bench.history.take_over(NAME, "o", "another", None, part.fence)
            return await add(trigger, part, terms, hold)

        monkeypatch.setattr(joining, "add", late)

        outcome = ship.handle(sent("o"))

        assert not outcome.acknowledge
        assert outcome.join is None
        assert bench.state_of("o") is State.STARTED
        assert (bench.waiting, bench.parked) == ([], [])

    def test_a_part_whose_copy_was_kept_by_another_worker_is_a_duplicate(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, ship, _runs = shipping()
        joining = bench.history.joining
        add = joining.add

        async def late(trigger: str, part: Any, terms: Any, hold: Any) -> Added:
            monkeypatch.setattr(joining, "add", add)
            kept.append(ship.handle(sent("o")))
            return await add(trigger, part, terms, hold)

        kept: list[Outcome] = []
        monkeypatch.setattr(joining, "add", late)

        outcome = ship.handle(sent("o"))

        assert (kept[0].join, kept[0].kind) == ("waiting", "waiting")
        assert (outcome.status, outcome.acknowledge, outcome.join) == (Status.DUPLICATE, True, None)
        assert outcome.kind == "duplicate"

    def test_a_store_that_goes_away_gives_the_part_back_and_suspends(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, ship, _runs = shipping()

        async def away(*_: object) -> Added:
            raise HistoryUnavailableError("adding")

        with monkeypatch.context() as patch:
            patch.setattr(bench.history.joining, "add", away)
            patch.setattr("time.sleep", no_pause)
            outcome = ship.handle(sent("o"))

        assert (outcome.acknowledge, outcome.suspend, outcome.row) == (False, True, 13)
        assert bench.state_of("o") is None, "its claim is released"
        assert bench.parked == []
        assert ship.handle(sent("o")).join == "waiting"

    def test_a_selector_is_asked_of_parts_and_not_of_their_join(self) -> None:
        bench, ship, runs = shipping(selector="activation = 'a' AND JMSMessageID IS NULL AND big IS NULL")
        unwanted = Message(
            body="", uuid="big", destination="orders", properties={"activation": "a", "big": 1}
        )

        turned_away = ship.handle(unwanted)
        ship.handle_batch([sent("o"), sent("p", "payments"), sent("b", activation="b")])

        assert (turned_away.acknowledge, turned_away.join, turned_away.status) == (True, None, None)
        assert (runs.seen, bench.waiting) == ([["o", "p"]], [])


class TestRunning:
    def test_the_last_part_brings_the_outcome_of_the_join(self) -> None:
        bench = Bench()
        ship = bench.trigger(both_bodies)

        ship.handle(sent("o"))
        outcome = ship.handle(sent("p", "payments"))

        assert (outcome.executed, outcome.acknowledge) == (True, True)
        assert outcome.result == ({"of": "o"}, {"of": "p"})
        assert outcome.uuid is not None
        assert outcome.uuid.startswith("join:ship:a:")
        assert bench.state_of(outcome.uuid) is EntryOutcome.OK
        assert bench.waiting == []

    def test_activations_and_periods_do_not_mix(self) -> None:
        _bench, ship, runs = shipping()

        ship.handle_batch([sent("o1"), sent("o2", activation="b"), sent("p2", "payments", "b")])
        ship.handle_batch([sent("p1", "payments"), sent("o3"), sent("p3", "payments")])

        assert runs.seen == [["o2", "p2"], ["o1", "p1"], ["o3", "p3"]]

    def test_a_join_that_fails_is_parked_whole_and_can_be_run(self) -> None:
        bench, ship, runs = shipping(ValueError("no"))

        ship.handle(sent("o"))
        failed = ship.handle(sent("p", "payments"))

        assert failed.event is not None
        assert failed.event.cause is Cause.SERVICE_FAILED
        (parked,) = bench.parked
        assert parked.kind is ParkedKind.REJECTED
        assert parked.message is not None
        assert Joined.of(parked.message)["payments"] == sent("p", "payments")
        assert bench.waiting == []

        assert drive(run_parked(ship, parked, bench.history.parking)).executed
        assert (bench.parked, runs.seen) == ([], [["o", "p"]] * 2)

    def test_retries_are_those_of_the_trigger(self) -> None:
        bench, ship, _runs = shipping(
            TransientError("busy"), retry=Retry(max_attempts=1, interval=timedelta(0))
        )

        ship.handle(sent("o"))

        assert ship.handle(sent("p", "payments")).attempts == 2
        assert bench.parked == []

    def test_a_join_that_is_given_back_is_found_and_run_again(self) -> None:
        bench, ship, runs = shipping(TransientError("busy"), on_retry_failure="suspend")

        ship.handle(sent("o"))
        first = ship.handle(sent("p", "payments"))

        assert first.suspend
        assert first.acknowledge, "the part itself is kept"
        (again,) = sweep(ship)
        assert again.executed
        assert again.error is None
        assert (bench.waiting, runs.seen) == ([], [["o", "p"]] * 2)

    def test_a_join_whose_worker_died_before_it_ran_is_run_when_nobody_holds_it(self) -> None:
        bench, ship, runs = shipping()
        ship.handle(sent("o"))
        drive(joining_of(ship).parts.handle(sent("p", "payments")))  # the worker dies here

        assert sweep(ship) == []
        bench.later(seconds=31)
        (outcome,) = sweep(ship)

        assert outcome.executed
        assert (runs.seen, bench.waiting) == ([["o", "p"]], [])

    def test_a_join_whose_worker_died_while_it_ran_is_in_doubt(self) -> None:
        bench, ship, runs = shipping(KeyboardInterrupt())
        ship.handle(sent("o"))
        with pytest.raises(KeyboardInterrupt):
            ship.handle(sent("p", "payments"))

        bench.later(seconds=31)
        (outcome,) = sweep(ship)

        assert (outcome.status, outcome.parked) == (Verdict.IN_DOUBT, True)
        assert (runs.seen, bench.waiting) == ([["o", "p"]], [])
        assert [one.kind for one in bench.parked] == [ParkedKind.IN_DOUBT]

    def test_the_resolver_is_asked_of_joins_and_not_of_parts(self) -> None:
        asked: list[str] = []

        def resolver(uuid: str, trigger_name: str, message: object) -> Resolution:
            asked.append(uuid)
            return Resolution.NEW

        bench, ship, runs = shipping(KeyboardInterrupt(), resolver=resolver)
        drive(bench.history.claim(NAME, ["o"], "who died"))
        ship.handle(sent("o"))
        with pytest.raises(KeyboardInterrupt):
            ship.handle(sent("p", "payments"))
        bench.later(seconds=31)

        (outcome,) = sweep(ship)

        assert outcome.executed
        assert (asked, runs.seen) == ([outcome.uuid], [["o", "p"]] * 2)

    def test_a_join_whose_worker_died_after_it_had_run_is_a_duplicate(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, ship, runs = shipping()

        async def dies(*_: object) -> bool:
            raise HistoryUnavailableError("finishing")

        with monkeypatch.context() as patch:
            patch.setattr(bench.history.joining, "finish", dies)
            ship.handle_batch([sent("o"), sent("p", "payments")])
        assert len(bench.waiting) == 1
        bench.later(seconds=31)
        (outcome,) = sweep(ship)

        assert outcome.status is Status.DUPLICATE
        assert (runs.seen, bench.waiting) == ([["o", "p"]], [])

    def test_a_join_that_kills_its_process_each_time_is_rejected_in_the_end(self) -> None:
        bench, ship, runs = shipping(*[KeyboardInterrupt()] * 9, in_doubt="execute", max_delivery_count=2)
        ship.handle(sent("o"))
        with pytest.raises(KeyboardInterrupt):
            ship.handle(sent("p", "payments"))
        bench.later(seconds=31)
        with pytest.raises(KeyboardInterrupt):
            sweep(ship)

        bench.later(seconds=31)
        (outcome,) = sweep(ship)

        assert outcome.rejected
        assert (len(runs.seen), bench.waiting) == (2, [])

    def test_what_runs_is_kept_alive_and_not_run_by_others(self) -> None:
        bench = Bench()
        others: list[Any] = []

        def slow(joined: Joined) -> None:
            for _ in range(5):
                bench.later(seconds=20)
                drive(joining_of(ship).keep_alive())
                others.extend(drive(bench.history.joining.due(NAME, joining_of(ship).hold)))

        ship = bench.trigger(slow)

        ship.handle_batch([sent("o"), sent("p", "payments")])

        assert (others, bench.waiting) == ([], [])
