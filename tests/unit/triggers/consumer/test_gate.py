"""The gate of a trigger: who may close and open it, what it counts, and what it reports."""

import time
from typing import Any

import pytest

from history import MemoryHistory
from history.store.control import Counts, Report, TriggerState, TroubleKind
from triggers import Message, Outcome, Status, trigger
from triggers.consumer.calls import OVERDUE
from triggers.consumer.gate import Gate
from triggers.detection.suspension import Suspension

HISTORY, RESOURCE, COMMAND, FATAL = Suspension


@trigger("orders", name="book", history=MemoryHistory())
def book(message: Message) -> None: ...


@pytest.fixture
def gate() -> Gate:
    return Gate(book)


def outcome(status: Status | None = Status.NEW, **facts: Any) -> Outcome:
    given: dict[str, Any] = {
        "executed": status is Status.NEW,
        "acknowledge": True,
        "reason": "row 7",
        "row": 7,
    }
    return Outcome(status=status, **{**given, **facts})


def told(gate: Gate) -> Report:
    return gate.report("worker", obeyed=0, since=Counts(), leaving=False)


class TestStates:
    def test_what_an_error_suspended_is_resumed_without_a_command(self, gate: Gate) -> None:
        gate.suspend("the database is away", HISTORY)
        assert gate.wakes

        gate.resume()

        assert gate.state is TriggerState.RUNNING

    def test_a_disabled_trigger_stays_so_until_it_is_enabled(self, gate: Gate) -> None:
        gate.disable("moved")
        gate.disable("once more")
        gate.suspend("maintenance", COMMAND)
        gate.resume(by_command=True)
        gate.resume()
        assert (gate.state, told(gate).reason) == (TriggerState.DISABLED, "moved")

        gate.enable()

        assert gate.state is TriggerState.RUNNING

    @pytest.mark.parametrize("kind", Suspension)
    def test_enabling_opens_whatever_had_closed(self, gate: Gate, kind: Suspension) -> None:
        gate.suspend("for the test", kind)
        gate.disable("for the test")
        assert not gate.wakes

        gate.enable()

        assert not gate.closed

    @pytest.mark.parametrize("kind", [RESOURCE, COMMAND, FATAL])
    def test_what_needs_a_person_is_resumed_by_a_command_only(self, gate: Gate, kind: Suspension) -> None:
        gate.suspend("for the test", kind)
        assert not gate.wakes

        gate.resume()
        assert gate.suspension is kind
        gate.resume(by_command=True)

        assert gate.state is TriggerState.RUNNING
        assert (told(gate).reason, told(gate).by_command) == (None, False)

    @pytest.mark.parametrize(("first", "second"), [(one, two) for one in Suspension for two in Suspension])
    def test_the_kind_that_needs_more_stands(self, gate: Gate, first: Suspension, second: Suspension) -> None:
        gate.suspend("first", first)

        gate.suspend("second", second)

        order = [HISTORY, RESOURCE, COMMAND, FATAL]
        assert gate.suspension is max(first, second, key=order.index)

    def test_every_suspension_has_a_number_of_its_own(self, gate: Gate) -> None:
        gate.suspend("first", HISTORY)
        gate.suspend("ignored", HISTORY)
        first = gate.suspensions
        gate.resume()

        gate.suspend("second", HISTORY)

        assert gate.suspensions == first + 1


class TestDeliveries:
    @pytest.mark.parametrize("close", ["suspend", "disable"])
    def test_nothing_begins_while_it_is_closed_and_what_runs_is_told(self, gate: Gate, close: str) -> None:
        begun = gate.enter()
        assert begun is not None

        if close == "disable":
            gate.disable("for the test")
        else:
            gate.suspend("for the test", RESOURCE)

        assert gate.enter() is None
        assert told(gate).busy == 1
        assert gate.longest > 0.0
        gate.leave(begun)
        assert (told(gate).busy, gate.longest) == (0, 0.0)


class TestCounts:
    @pytest.mark.parametrize(
        ("counted", "expected"),
        [
            (outcome(attempts=1, seconds=0.25), Counts(new=1, runs=1, microseconds=250_000)),
            (
                outcome(attempts=3, seconds=1.5, error=ValueError()),
                Counts(new=1, failed=1, runs=3, retried=2, microseconds=1_500_000),
            ),
            (
                outcome(attempts=1, error=ValueError(), acknowledge=False),
                Counts(new=1, failed=1, recovered=1, runs=1),
            ),
            (outcome(error=ValueError()), Counts(new=1, failed=1)),
            (outcome(Status.DUPLICATE), Counts(duplicate=1)),
            (outcome(Status.IN_DOUBT), Counts(in_doubt=1)),
            (outcome(None, rejected=True), Counts(rejected=1)),
            (outcome(None, acknowledge=False, error=OSError()), Counts(recovered=1)),
        ],
        ids=["ok", "failed", "rolled back", "too large", "duplicate", "in doubt", "rejected", "undecided"],
    )
    def test_an_outcome_is_counted(self, gate: Gate, counted: Outcome, expected: Counts) -> None:
        gate.note(counted)

        assert gate.statistics() == expected

    def test_outcomes_that_came_together_are_counted_as_each_by_itself(self, gate: Gate) -> None:
        failed = outcome(attempts=1, error=ValueError("no such customer"))
        together = [
            *[outcome(attempts=1, executed=True, seconds=0.25)] * 3,
            *[failed, outcome(attempts=2), outcome(Status.DUPLICATE), outcome(None, rejected=True)],
            *[outcome(attempts=1, parked=True), outcome(attempts=1, acknowledge=False)],
            outcome(attempts=1, suspension=RESOURCE),
        ]
        alone = Gate(book)

        gate.note_all(together)
        for each in together:
            alone.note(each)

        assert (gate.statistics(), gate.counts, gate.parked) == (
            alone.statistics(),
            alone.counts,
            alone.parked,
        )
        assert gate.suspension is RESOURCE
        assert [(trouble.kind, trouble.count) for trouble in told(gate).troubles] == [
            (TroubleKind.FAILING, 1)
        ]

    def test_what_is_told_begins_where_it_is_asked_to(self, gate: Gate) -> None:
        gate.note(outcome())
        before = gate.statistics()
        gate.note(outcome(Status.DUPLICATE))

        report = gate.report("worker", obeyed=7, since=before, leaving=True)

        assert report.counts == Counts(duplicate=1)
        assert (report.consumer, report.trigger, report.obeyed, report.leaving) == ("worker", "book", 7, True)

    def test_what_is_no_message_is_counted(self, gate: Gate) -> None:
        gate.note_unreadable()

        assert gate.statistics() == Counts(unreadable=1)


class TestReports:
    def test_a_suspension_is_told_with_its_reason_and_by_whom(self, gate: Gate) -> None:
        gate.suspend("the database is away", HISTORY)
        by_error = told(gate)
        gate.suspend("maintenance", COMMAND)
        by_command = told(gate)

        assert (by_error.reason, by_error.by_command) == ("the database is away", False)
        assert (by_command.reason, by_command.by_command) == ("maintenance", True)
        assert {by_error.state, by_command.state} == {TriggerState.SUSPENDED}

    def test_a_provider_that_is_away_is_told_from_its_first_failure_to_its_first_answer(
        self, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [time.monotonic()]
        monkeypatch.setattr("triggers.consumer.gate.time.monotonic", lambda: now[0])
        before = told(gate)
        gate.away = "no route"
        now[0] += 3.0
        gate.away = "refused"
        now[0] += 2.0
        meanwhile = told(gate)
        gate.away = None

        assert (before.away, before.away_for) == (None, 0.0)
        assert meanwhile.away == "refused"
        assert meanwhile.away_for == pytest.approx(5.0)
        assert meanwhile.state is TriggerState.RUNNING
        assert (told(gate).away, told(gate).away_for) == (None, 0.0)

    def test_a_silent_server_is_away_before_its_call_returns(
        self, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [time.monotonic()]
        monkeypatch.setattr("triggers.consumer.calls.time.monotonic", lambda: now[0])
        with gate.provider_calls.begun(), gate.history_calls.begun():
            early = told(gate)
            now[0] += OVERDUE + 1.0
            late, history_away = told(gate), gate.history_away

        assert (early.away, early.away_for) == (None, 0.0)
        assert (late.away is None, history_away is None) == (False, False)
        assert late.away_for == pytest.approx(OVERDUE + 1.0)
        assert (told(gate).away, gate.history_away) == (None, None)


class TestTroubles:
    def test_a_message_that_fails_is_told_with_its_error(self, gate: Gate) -> None:
        gate.note(outcome(attempts=1))
        gate.note(outcome(attempts=1, error=ValueError("no such customer")))

        [trouble] = told(gate).troubles
        assert (trouble.kind, trouble.count) == (TroubleKind.FAILING, 1)
        assert trouble.cause == "ValueError: no such customer"

    def test_a_long_call_is_logged_once(
        self, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        begun = gate.enter()
        assert begun is not None
        gate.name_long_calls()
        early = len(caplog.records)
        monkeypatch.setattr("triggers.consumer.gate.LOGGED_AFTER", -1.0)
        gate.name_long_calls()
        gate.name_long_calls()
        gate.leave(begun)
        gate.name_long_calls()

        assert (early, len(caplog.records)) == (0, 1)
        assert "book" in caplog.text
