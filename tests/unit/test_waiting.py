"""The patience of the tests: a slow machine gets more time, but not endless time."""

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.fixtures import waiting
from tests.fixtures.waiting import eventually, patiently, slowness


def after(seconds: float) -> Callable[[], bool]:
    begun = time.monotonic()
    return lambda: time.monotonic() - begun > seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``machine(3)``: it is three times slower now than at the beginning of the run."""
    return lambda times: monkeypatch.setattr(waiting, "measured", lambda: slowness() * times)


@pytest.mark.parametrize(
    ("starts", "least"),
    [([1.5], 1.5), ([30.0, 1.2], 1.2), ([7.0, 9.0, 6.0], 6.0)],
    ids=["quick", "once", "slow"],
)
def test_one_slow_start_does_not_make_the_machine_slow(
    monkeypatch: pytest.MonkeyPatch, starts: list[float], least: float
) -> None:
    monkeypatch.delenv("TESTS_SLOWNESS")
    monkeypatch.setattr(waiting, "measured", iter(starts).__next__)

    assert slowness.__wrapped__() == least


def test_what_does_not_come_true_fails(machine: Callable[[float], None]) -> None:
    machine(1)

    with pytest.raises(AssertionError, match="did not come true"):
        eventually(lambda: False, 0.05)


def test_a_machine_that_has_become_slower_is_given_more_time(machine: Callable[[float], None]) -> None:
    machine(1000)

    assert eventually(after(0.2), 0.05)


@pytest.mark.parametrize(("times", "ends"), [(1, False), (10_000, True)])
def test_a_process_is_given_more_time_likewise(
    machine: Callable[[float], None], times: float, *, ends: bool
) -> None:
    machine(times)

    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"]) as process:
        try:
            code = patiently(process.wait, 0.01)
        except subprocess.TimeoutExpired:
            code = None

    assert (code == 0) is ends
