"""Housekeeping resumes suspended triggers and sweeps; the test controls the clock."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from history import Claim, HistoryUnavailableError, Parked, ParkedKind
from history.beside.parking import Parking
from history.bridge import drive
from history.memory import MemoryHistory
from history.shell import ThreadShell
from triggers import TOKENS, Message, Outcome, TransientError, trigger
from triggers.consumer.gate import Gate
from triggers.consumer.housekeeping import Housekeeping
from triggers.detection.suspension import Suspension
from triggers.pipeline.parking.sweep import SWEEP_INTERVAL

INTERVAL = 60.0

AT_ONCE = 1000.0


class Refusing(MemoryHistory):
    """A history that can be read but refuses claims, like a full server."""

    refuses = True

    async def claim(self, *args: Any, **options: Any) -> Sequence[Claim]:
        if self.refuses:
            raise HistoryUnavailableError("claim")
        return await super().claim(*args, **options)


class House:
    """The housekeeping of a suspended trigger, and a monitor that counts its calls."""

    def __init__(
        self,
        monitor: Callable[[], bool] | None = None,
        lot: Parking | None = None,
        store: MemoryHistory | None = None,
    ) -> None:
        self.asked = 0
        self.lot = lot
        self._monitor = monitor
        self.store = store or MemoryHistory()

        @trigger(
            "orders",
            name="orders",
            history=self.store,
            monitor=None if monitor is None else self._ask,
            monitor_interval=timedelta(seconds=INTERVAL),
            parking=lot,
            redact=TOKENS,
        )
        def work(message: Message) -> None: ...

        self.gate = Gate(work)
        self._housekeeping = Housekeeping(gate=self.gate, pipeline=work.pipeline(), shell=ThreadShell())

    def _ask(self) -> bool:
        self.asked += 1
        assert self._monitor is not None
        return self._monitor()

    def suspend(self, kind: Suspension = Suspension.RESOURCE) -> None:
        self.gate.suspend("for the test", kind)

    def resumes_at(self, now: float) -> bool:
        """Do the housekeeping at this instant; return whether the trigger runs afterwards."""
        drive(self._housekeeping.do(now))
        drive(self._housekeeping.wake(now))
        return self.gate.suspended is None


class TestWaking:
    def test_a_monitor_that_says_no_is_asked_once_in_an_interval(self) -> None:
        house = House(lambda: False)
        house.suspend()

        for second in range(3 * int(INTERVAL)):
            assert not house.resumes_at(AT_ONCE + second)

        assert house.asked == 3

    def test_a_monitor_that_says_yes_too_soon_resumes_once_in_an_interval(self) -> None:
        house = House(lambda: True)

        for second in range(3 * int(INTERVAL)):
            house.suspend()
            house.resumes_at(AT_ONCE + second)

        # Each resumption uses one delivery of each message, and a message has only a hundred.
        assert house.asked == 3

    def test_without_a_monitor_no_time_resumes_the_trigger(self) -> None:
        house = House()
        house.suspend()

        for interval in range(200):
            assert not house.resumes_at(AT_ONCE + interval * INTERVAL)

    @pytest.mark.parametrize("kind", [Suspension.COMMAND, Suspension.FATAL])
    def test_a_monitor_that_says_yes_does_not_resume_what_needs_a_person(self, kind: Suspension) -> None:
        house = House(lambda: True)
        house.suspend(kind)

        for interval in range(200):
            assert not house.resumes_at(AT_ONCE + interval * INTERVAL)

        assert house.asked == 0

    def test_a_yes_that_comes_after_a_fatal_failure_does_not_resume(self) -> None:
        def ask() -> bool:
            house.suspend(Suspension.FATAL)
            return True

        house = House(ask)
        house.suspend()

        assert not house.resumes_at(AT_ONCE)
        assert house.gate.suspension is Suspension.FATAL

    def test_a_yes_to_an_earlier_suspension_does_not_resume(self) -> None:
        def ask() -> bool:
            house.gate.resume(by_command=True)
            house.suspend()  # the next message finds the resource unavailable
            return True

        house = House(ask)
        house.suspend()

        assert not house.resumes_at(AT_ONCE)

    @pytest.mark.parametrize(
        "answer", ["false", 1, None, [], iter([False])], ids=["text", "number", "none", "list", "iterator"]
    )
    def test_an_answer_that_is_neither_true_nor_false_does_not_resume(self, answer: object) -> None:
        house = House(lambda: cast("bool", answer))
        house.suspend()

        assert not house.resumes_at(AT_ONCE)

    def test_a_monitor_whose_own_call_was_cancelled_has_failed_and_ends_nothing(self) -> None:
        answers: list[BaseException | bool] = [asyncio.CancelledError(), True]

        def ask() -> bool:
            answer = answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        house = House(ask)
        house.suspend()

        assert not house.resumes_at(AT_ONCE)
        assert house.resumes_at(AT_ONCE + INTERVAL)

    def test_the_error_of_a_monitor_is_redacted_in_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        def ask() -> bool:
            raise OSError("no answer from https://orders:hunter2@bank.example")

        house = House(ask)
        house.suspend()
        house.resumes_at(AT_ONCE)

        assert "its monitor failed: OSError: no answer from https://orders:(redacted" in caplog.text
        assert "hunter2" not in caplog.text

    def test_suspended_by_its_history_it_resumes_within_a_second_of_its_return(self) -> None:
        house = House()
        house.suspend(Suspension.HISTORY)

        assert not house.resumes_at(AT_ONCE)
        assert house.resumes_at(AT_ONCE + 1)

    @pytest.mark.parametrize("kind", [Suspension.HISTORY, Suspension.RESOURCE])
    def test_nothing_resumes_while_the_history_takes_no_claims(self, kind: Suspension) -> None:
        store = Refusing()
        house = House(lambda: True, store=store)
        house.suspend(kind)

        for second in range(3 * int(INTERVAL)):
            assert not house.resumes_at(AT_ONCE + second)

        store.refuses = False
        assert house.resumes_at(AT_ONCE + 4 * INTERVAL)

    def test_asking_the_history_leaves_nothing_behind(self) -> None:
        house = House(lambda: True)
        house.suspend()

        house.resumes_at(AT_ONCE)

        stats = drive(house.store.stats("orders"))
        assert (stats.started, stats.completed) == (0, 0)


class TestSweeping:
    @pytest.mark.parametrize("elsewhere", [False, True])
    def test_settled_copies_are_closed_every_ten_minutes_wherever_they_are(self, *, elsewhere: bool) -> None:
        house = House(lot=MemoryHistory().parking if elsewhere else None)
        lot = house.lot or house.store.parking
        message = Message(uuid="twice", body="")
        parked = Parked(
            id="1",
            trigger_name="orders",
            kind=ParkedKind.IN_DOUBT,
            reason="for the test",
            uuid="twice",
            message=message,
        )
        claim = drive(house.store.claim("orders", ["twice"], "somebody"))[0]
        drive(house.store.complete("orders", "twice", claim.fence))

        def left_at(now: float) -> int:
            drive(lot.park([parked]))
            house.resumes_at(now)
            return drive(lot.count())

        ten_minutes = SWEEP_INTERVAL.total_seconds()
        assert [left_at(AT_ONCE + minutes * 60) for minutes in (0, 9, 10, 11, 19, 20)] == [1, 1, 0, 1, 1, 0]
        assert ten_minutes == 600


class TestSuspending:
    @pytest.mark.parametrize("kind", Suspension)
    def test_an_outcome_suspends_in_its_way(self, kind: Suspension) -> None:
        gate = House().gate

        gate.note(
            Outcome(
                status=None,
                executed=False,
                acknowledge=False,
                reason="for the test",
                row=13,
                suspension=kind,
                error=TransientError(),
            )
        )

        assert (gate.suspended, gate.suspension) == ("for the test", kind)
