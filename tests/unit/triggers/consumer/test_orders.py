"""Commands reach a consumer, and its counts reach the history; the test controls the clock."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from history import ConfigurationError, HistoryUnavailableError, MemoryHistory, Verb
from history.beside.control import Control
from history.bridge import drive
from history.shell import Shell, ThreadShell
from history.store import FORGOTTEN_AFTER, Counts, Heard, HistoryStore, Overview, Report, TriggerState
from tests.fixtures.beside import EntriesOnly
from tests.unit.helpers.in_memory import Clock
from triggers import Consumer, Message, Outcome, Status, trigger
from triggers.consumer.gate import Gate
from triggers.consumer.orders import BEAT_INTERVAL, Heartbeat, first_orders, heartbeats_for
from triggers.detection.suspension import Suspension
from triggers.providers.memory import MemoryProvider

NAME = "book"


def gate_of(name: str = NAME) -> Gate:
    @trigger("orders", name=name, history=MemoryHistory())
    def work(message: Message) -> None: ...

    return Gate(work)


def note(gate: Gate, status: Status = Status.NEW, reason: str = "row 7", **facts: Any) -> None:
    gate.note(Outcome(status=status, executed=True, acknowledge=True, reason=reason, row=7, **facts))


def fails_for_good(gate: Gate) -> None:
    note(gate, reason="it failed for good", suspension=Suspension.FATAL)


class Server:
    """A history in memory that can go away or lose its answers; the test moves its clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryHistory(clock=self.clock)
        self.beats = 0
        self._beat = self.store.control.beat

    def passes(self, **duration: float) -> None:
        self.clock.now += timedelta(**duration)

    def order(self, verb: Verb, reason: str | None = None) -> None:
        drive(self.store.control.order(verb, [NAME], reason=reason))

    @property
    def overview(self) -> Overview:
        return drive(self.store.control.overview())

    @property
    def held(self) -> str | None:
        """Return why a consumer that starts later is suspended; None if it is not suspended."""
        held = self.overview.held(NAME)
        return None if held is None else held.reason

    @property
    def statistics(self) -> Counts:
        return self.overview.statistics.get(NAME, Counts())

    def goes_away(self, monkeypatch: pytest.MonkeyPatch, *, after_the_write: bool = False) -> None:
        async def beat(_: Control, token: str, reports: Sequence[Report]) -> Heard:
            if after_the_write:
                await self._beat(token, reports)
            raise HistoryUnavailableError("reporting")

        monkeypatch.setattr(Control, "beat", beat)


class Over:
    """A flag that records each pause and does not wait."""

    def __init__(self, pauses: list[float], is_over: Callable[[], bool]) -> None:
        self._pauses = pauses
        self._is_over = is_over

    def is_set(self) -> bool:
        return self._is_over()

    def set(self) -> None: ...

    def clear(self) -> None: ...

    async def wait(self, seconds: float) -> bool:
        if self._is_over():
            return True
        self._pauses.append(seconds)
        return self._is_over()


def pausing(pauses: list[float], *, over: Callable[[], bool]) -> Shell:
    """Return a shell that is over when ``over`` says so."""
    shell = ThreadShell()
    shell.over = Over(pauses, over)
    return shell


@pytest.fixture
def server() -> Server:
    return Server()


class Running:
    """A consumer that begins now; ``beats`` moves its clock and the server's forward, and beats."""

    def __init__(self, server: Server) -> None:
        self.gate = gate_of()
        self.server = server
        self.heartbeat = Heartbeat("worker", server.store, [self.gate])
        self._at = time.monotonic()
        self.passes(0.01)

    def state(self) -> TriggerState:
        return self.gate.state

    def passes(self, seconds: float) -> None:
        self._at += seconds
        self.server.passes(seconds=seconds)

    def beats(self, after: float = 1.0, *, leaving: bool = False) -> bool:
        self.passes(after)
        return drive(self.heartbeat.beat(self._at, leaving=leaving))


@pytest.fixture
def running(server: Server) -> Running:
    return Running(server)


class TestOrders:
    def test_an_order_is_obeyed_once(self, running: Running) -> None:
        running.beats()
        running.server.order(Verb.SUSPEND, "maintenance")

        assert running.beats()
        assert running.gate.suspended == "maintenance"
        running.gate.resume(by_command=True)
        assert not running.beats()

        assert running.state() is TriggerState.RUNNING

    def test_what_was_obeyed_is_told(self, running: Running) -> None:
        running.beats()
        running.server.order(Verb.SUSPEND)
        running.beats()

        running.beats()

        (beat,) = running.server.overview.beats
        (order,) = running.server.overview.orders
        assert (beat.report.state, beat.report.obeyed) == (TriggerState.SUSPENDED, order.number)
        assert (beat.report.reason, beat.report.by_command) == ("by command", True)

    def test_who_begins_while_the_history_is_away_obeys_what_was_ordered_since(
        self, running: Running
    ) -> None:
        running.passes(20)
        running.server.order(Verb.SUSPEND)

        running.beats(30)

        assert running.state() is TriggerState.SUSPENDED

    def test_who_begins_later_is_disabled_until_somebody_enables_it(self, server: Server) -> None:
        server.order(Verb.DISABLE, "moved")
        server.order(Verb.SUSPEND)
        server.passes(days=1)
        running = Running(server)

        running.beats()
        assert running.state() is TriggerState.DISABLED
        server.order(Verb.ENABLE)
        running.beats()

        assert running.state() is TriggerState.RUNNING

    def test_orders_are_obeyed_in_the_order_they_were_given(self, running: Running) -> None:
        running.server.order(Verb.ENABLE)
        running.server.order(Verb.SUSPEND)
        running.beats()
        assert running.state() is TriggerState.SUSPENDED

        running.server.order(Verb.SUSPEND)
        running.server.order(Verb.ENABLE)
        running.beats()

        assert running.state() is TriggerState.RUNNING

    def test_a_fatal_failure_holds_the_others_and_those_that_start_later(self, running: Running) -> None:
        other = Running(running.server)
        other.beats()
        running.beats()
        fails_for_good(running.gate)

        running.beats()

        assert (running.server.held, running.gate.word) == ("it failed for good", None)
        other.beats()
        running.server.passes(days=30)
        later = Running(running.server)
        later.beats()
        assert {one.gate.suspension for one in (running, other, later)} == {Suspension.FATAL}

    @pytest.mark.parametrize("verb", [Verb.RESUME, Verb.ENABLE])
    def test_one_command_of_a_person_resumes_all_that_are_held(self, running: Running, verb: Verb) -> None:
        other = Running(running.server)
        fails_for_good(running.gate)
        running.beats()
        other.beats()

        running.server.order(verb)
        for one in (running, other):
            one.beats()
            one.beats()

        later = Running(running.server)
        later.beats()
        assert {one.state() for one in (running, other, later)} == {TriggerState.RUNNING}
        assert running.server.held is None

    @pytest.mark.parametrize("told", ["resume", "enable"])
    def test_resumed_in_code_nobody_is_held_any_more(self, server: Server, told: str) -> None:
        consumer = Consumer([gate_of().trigger], MemoryProvider())
        [gate] = consumer.gates
        heartbeat = Heartbeat("worker", server.store, [gate])
        fails_for_good(gate)
        drive(heartbeat.beat(time.monotonic()))
        assert server.held is not None

        getattr(consumer, told)(NAME)
        drive(heartbeat.beat(time.monotonic()))

        assert not server.held
        assert gate.state is TriggerState.RUNNING

    def test_while_the_history_is_away_it_is_told_later(
        self, running: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as away:

            async def order(*_: object, **__: object) -> int:
                raise HistoryUnavailableError("giving an order")

            away.setattr(Control, "order", order)
            fails_for_good(running.gate)
            running.beats()
        assert running.gate.suspension is Suspension.FATAL

        running.beats()

        assert running.server.held == "it failed for good"

    def test_what_could_not_be_told_is_not_told_after_a_person_has_resumed(self, running: Running) -> None:
        fails_for_good(running.gate)
        running.gate.resume(by_command=True)

        running.beats()

        assert running.server.held is None

    def test_a_command_to_suspend_does_not_let_those_go_that_start_later(self, running: Running) -> None:
        fails_for_good(running.gate)
        running.beats()

        running.server.order(Verb.SUSPEND, "maintenance")
        running.beats()
        running.beats()

        later = Running(running.server)
        later.beats()
        assert later.gate.suspension is Suspension.FATAL

    def test_the_next_beat_follows_at_once_where_an_order_was_obeyed(self, running: Running) -> None:
        pauses: list[float] = []
        running.server.order(Verb.DISABLE)

        drive(running.heartbeat.run(pausing(pauses, over=lambda: len(pauses) == 2)))

        assert pauses == [BEAT_INTERVAL, BEAT_INTERVAL]
        assert running.state() is TriggerState.DISABLED

    def test_who_begins_later_is_not_suspended(self, server: Server) -> None:
        server.order(Verb.SUSPEND)
        server.passes(milliseconds=1)

        running = Running(server)
        running.beats()

        assert running.state() is TriggerState.RUNNING


class TestCounts:
    def test_a_consumer_that_leaves_is_not_seen_and_its_counts_stay(self, running: Running) -> None:
        running.beats()
        note(running.gate)

        running.beats(leaving=True)

        assert (list(running.server.overview.beats), running.server.statistics) == ([], Counts(new=1))

    def test_an_answer_that_was_lost_is_not_counted_again(
        self, running: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        note(running.gate)
        with monkeypatch.context() as away:
            running.server.goes_away(away, after_the_write=True)
            running.beats()

        note(running.gate)
        running.beats()

        assert running.server.statistics == Counts(new=2)

    def test_a_consumer_that_comes_back_after_a_long_silence_is_not_counted_again(
        self, running: Running
    ) -> None:
        note(running.gate)
        running.beats()
        running.server.passes(seconds=FORGOTTEN_AFTER.total_seconds())
        drive(running.server.store.control.sweep(silence=timedelta(0)))
        note(running.gate)

        running.beats(FORGOTTEN_AFTER.total_seconds())
        note(running.gate)
        running.beats()

        assert running.server.statistics == Counts(new=3)

    def test_what_was_said_long_ago_is_swept(self, running: Running) -> None:
        drive(running.server.store.control.beat("dead", [Report(consumer="dead", trigger=NAME)]))
        running.server.passes(seconds=2 * FORGOTTEN_AFTER.total_seconds())

        running.beats()

        said = drive(running.server.store.control.overview(silence=timedelta(days=1))).beats
        assert [beat.report.consumer for beat in said] == ["worker"]


class TestHistoryAway:
    def test_it_is_warned_of_once_and_nothing_else_happens(
        self, running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        with monkeypatch.context() as away:
            running.server.goes_away(away)
            for _ in range(3):
                note(running.gate)
                assert not running.beats()
        (warning,) = [record.getMessage() for record in caplog.records]
        assert warning.startswith("history unreachable: heartbeats and commands of worker are paused: ")

        running.beats()

        assert "history reachable again" in caplog.text
        assert running.server.statistics == Counts(new=3)
        assert running.state() is TriggerState.RUNNING

    def test_a_history_without_records_gets_no_heartbeat(self) -> None:
        store = cast("HistoryStore", EntriesOnly())

        assert heartbeats_for("worker", [(gate_of(), store)], None) == []

    def test_who_ends_meanwhile_does_not_ask_it_again(
        self, running: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[bool] = []

        async def beat(*_: object) -> Heard:
            asked.append(True)
            raise HistoryUnavailableError("reporting")

        monkeypatch.setattr(Control, "beat", beat)

        drive(running.heartbeat.run(pausing([], over=lambda: len(asked) == 1)))

        assert len(asked) == 1


class TestStarting:
    def test_it_waits_for_the_first_orders(self, running: Running) -> None:
        looks: list[float] = []

        def look() -> bool:
            if len(looks) == 3:
                running.beats()
            return False

        drive(first_orders([running.heartbeat], pausing(looks, over=look)))

        assert len(looks) == 3

    def test_it_does_not_wait_when_it_is_to_stop(self, running: Running) -> None:
        looks: list[float] = []

        drive(first_orders([running.heartbeat], pausing(looks, over=lambda: True)))

        assert looks == []

    def test_it_does_not_wait_for_long(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("triggers.consumer.orders.FIRST_ORDERS_PATIENCE", 0.05)

        drive(first_orders([running.heartbeat], ThreadShell()))

        assert not running.heartbeat.tried


class TestHiring:
    def test_triggers_of_one_history_are_told_of_together(self, server: Server) -> None:
        other = MemoryHistory()
        gates = [(gate_of(name), server.store) for name in "ab"]

        heartbeats = heartbeats_for("worker", [*gates, (gate_of("c"), other)], None)
        for heartbeat in heartbeats:
            drive(heartbeat.beat(time.monotonic()))

        assert len(heartbeats) == 2
        assert [beat.report.trigger for beat in server.overview.beats] == ["a", "b"]

    def test_a_trigger_without_a_history_is_told_of_to_the_default_one(self, server: Server) -> None:
        gates = [(gate_of("a"), None), (gate_of("b"), server.store)]

        (heartbeat,) = heartbeats_for("worker", gates, server.store)
        drive(heartbeat.beat(time.monotonic()))

        assert sorted(beat.report.trigger for beat in server.overview.beats) == ["a", "b"]

    def test_without_any_history_nobody_is_told(self) -> None:
        assert heartbeats_for("worker", [(gate_of(), None)], None) == []


class TestInCode:
    def test_a_consumer_can_be_told_in_code(self) -> None:
        gate = gate_of()
        consumer = Consumer([gate.trigger], MemoryProvider())

        def state_after(told: str, *words: Any) -> TriggerState:
            getattr(consumer, told)(NAME, *words)
            return consumer.gates[0].state

        assert state_after("suspend", "maintenance") is TriggerState.SUSPENDED
        assert consumer.gates[0].suspended == "maintenance"
        assert state_after("resume") is TriggerState.RUNNING
        assert state_after("disable") is TriggerState.DISABLED
        assert state_after("enable") is TriggerState.RUNNING

    def test_a_trigger_that_is_not_run_is_named(self) -> None:
        consumer = Consumer([gate_of().trigger], MemoryProvider())

        with pytest.raises(ConfigurationError, match="'boook' is not run by this consumer; use one of book"):
            consumer.suspend("boook")
