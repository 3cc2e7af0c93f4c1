"""Failures are transient or fatal; how often a service is tried again, and how long it waits before."""

import asyncio
import math
from collections.abc import Sequence
from datetime import timedelta

import pytest

from history.bridge import drive
from history.errors import HistoryUnavailableError, UnavailableError
from triggers.service.failures import (
    FatalError,
    Retry,
    TransientError,
    UnawaitedError,
    is_transient,
    persist,
    rerun,
)

SECOND = timedelta(seconds=1)


class BusyError(Exception):
    """Another try may succeed."""


class DeadBusyError(FatalError, BusyError):
    """No try can succeed, whatever the trigger lists as transient."""


class Trying:
    """A service that raises its failures one after the other, and then succeeds."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.attempts: list[int] = []
        self.pauses: list[float] = []

    async def run(self, attempt: int) -> str:
        self.attempts.append(attempt)
        if self.failures:
            raise self.failures.pop(0)
        return f"attempt {attempt}"

    async def write(self) -> str:
        return await self.run(len(self.attempts) + 1)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def asleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.pauses.append(seconds)


def again(trying: Trying, retry: Retry, transient: tuple[type[Exception], ...] = ()) -> str:
    return drive(rerun(trying.run, retry=retry, transient=transient, sleep=trying.sleep))


class TestTransient:
    @pytest.mark.parametrize(
        ("error", "transient", "expected"),
        [
            (TransientError(), (), True),
            (UnavailableError("Redis", "reading"), (), True),
            (HistoryUnavailableError("claiming"), (), True),
            (BusyError(), (BusyError,), True),
            (ConnectionResetError(), (ConnectionError, TimeoutError), True),
            (BusyError(), (), False),
            (ValueError(), (ConnectionError, TimeoutError), False),
            (FatalError(), (), False),
            (FatalError(), (Exception,), False),
            (DeadBusyError(), (BusyError,), False),
            (KeyboardInterrupt(), (Exception,), False),
        ],
        ids=repr,
    )
    def test_it_is_what_says_so_and_what_the_trigger_lists_unless_it_is_fatal(
        self, error: BaseException, transient: tuple[type[Exception], ...], *, expected: bool
    ) -> None:
        assert is_transient(error, transient) is expected


class TestPauses:
    @pytest.mark.parametrize(
        ("retry", "pauses"),
        [
            (Retry(max_attempts=3), [10.0, 10.0, 10.0]),
            (Retry(max_attempts=3, interval=SECOND), [1.0, 1.0, 1.0]),
            (Retry(max_attempts=4, interval=SECOND, backoff=3), [1.0, 3.0, 9.0, 27.0]),
            (Retry(max_attempts=3, interval=SECOND, backoff=3, max_interval=2 * SECOND), [1.0, 2.0, 2.0]),
            (Retry(max_attempts=2, interval=timedelta(0), backoff=2), [0.0, 0.0]),
            (Retry(max_attempts=2, interval=SECOND, max_interval=timedelta(0)), [0.0, 0.0]),
        ],
        ids=repr,
    )
    def test_they_grow_by_the_back_off_up_to_the_longest(self, retry: Retry, pauses: Sequence[float]) -> None:
        assert [retry.pause(n) for n in range(1, retry.max_attempts + 1)] == pauses

    @pytest.mark.parametrize("backoff", [2, 2.0, math.inf])
    def test_they_never_grow_beyond_what_a_number_can_hold(self, backoff: float) -> None:
        assert Retry(max_attempts=5000, interval=SECOND, backoff=backoff).pause(5000) == 300.0
        assert Retry(max_attempts=5000, interval=timedelta(0), backoff=backoff).pause(5000) == 0.0


class TestRerun:
    def test_attempts_are_counted_from_the_first_run_on(self) -> None:
        trying = Trying(TransientError("1"), TransientError("2"))

        assert again(trying, Retry(max_attempts=3, interval=SECOND, backoff=2)) == "attempt 4"
        assert (trying.attempts, trying.pauses) == ([2, 3, 4], [1.0, 2.0, 4.0])

    def test_the_last_failure_is_raised_untouched_when_the_attempts_are_used_up(self) -> None:
        last = TransientError("last")
        trying = Trying(TransientError("first"), last, TransientError("too late"))

        with pytest.raises(TransientError) as caught:
            again(trying, Retry(max_attempts=2, interval=SECOND))

        assert caught.value is last
        assert trying.attempts == [2, 3]

    def test_a_fatal_failure_ends_it_at_once(self) -> None:
        trying = Trying(BusyError(), DeadBusyError("no use"))

        with pytest.raises(DeadBusyError, match="no use"):
            again(trying, Retry(max_attempts=9, interval=SECOND), (BusyError,))

        assert trying.attempts == [2, 3]


class TestPersist:
    def test_a_write_is_repeated_until_it_is_answered(self) -> None:
        trying = Trying(*[HistoryUnavailableError("settling")] * 4)

        assert drive(persist(trying.write, trying.sleep)) == "attempt 5"
        assert sum(trying.pauses) < 2.0

    def test_it_is_given_up_after_about_a_second(self) -> None:
        trying = Trying(*[HistoryUnavailableError("settling")] * 99)

        with pytest.raises(HistoryUnavailableError):
            drive(persist(trying.write, trying.sleep))

        assert len(trying.attempts) == 5
        assert 0.5 < sum(trying.pauses) < 2.0

    def test_what_is_no_outage_is_not_repeated(self) -> None:
        trying = Trying(ValueError("a mistake"))

        with pytest.raises(ValueError, match="a mistake"):
            drive(persist(trying.write, trying.sleep))

        assert trying.attempts == [1]


def test_an_awaitable_that_nobody_awaits_is_told_by_its_service_and_closed() -> None:
    async def late() -> None:
        await asyncio.sleep(0)

    coroutine = late()  # left open, it would warn, and a warning is an error here

    assert "service book returned a coroutine to await" in str(UnawaitedError("book", coroutine))


class TestAFunctionThatTellsWhatIsTransient:
    @staticmethod
    def is_busy(error: Exception) -> bool:
        return "busy" in str(error)

    @pytest.mark.parametrize(
        ("error", "transient"),
        [
            (ValueError("busy"), True),
            (ValueError("no such column"), False),
            (ConnectionError("refused"), False),
            (TransientError("no such column"), True),
            (HistoryUnavailableError("claiming"), True),
            (FatalError("busy"), False),
            (ExceptionGroup("busy", [ValueError("busy"), OSError("busy")]), True),
            (ExceptionGroup("busy", [ValueError("busy"), OSError("no such file")]), False),
            (KeyboardInterrupt("busy"), False),
        ],
    )
    def test_it_is_asked_about_each_exception(self, error: BaseException, *, transient: bool) -> None:
        assert is_transient(error, self.is_busy) is transient

    def test_an_exception_is_fatal_where_it_fails_itself(self, caplog: pytest.LogCaptureFixture) -> None:
        def broken(error: Exception) -> bool:
            raise LookupError("code")

        assert not is_transient(ValueError("busy"), broken)
        assert "transient= failed when it was asked about builtins.ValueError" in caplog.text
