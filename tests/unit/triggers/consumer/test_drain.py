"""Signals let a consumer drain, or end the process immediately."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from triggers.consumer.drain import DrainSignals

HUP, INT, TERM = signal.SIGHUP, signal.SIGINT, signal.SIGTERM

#: A program that sends itself signals, by their numbers, one after the other.
DRAINS = """
import os, sys
from triggers.consumer.drain import DrainSignals
with DrainSignals() as drain:
    for number in sys.argv[1:]:
        os.kill(os.getpid(), int(number))
    print(drain.received.name)
"""


@pytest.fixture(autouse=True)
def _not_under_nohup() -> Iterator[None]:
    """Restore the default of SIGHUP, because ``nohup`` may have set it to ignored."""
    before = signal.signal(HUP, signal.SIG_DFL)
    yield
    signal.signal(HUP, before)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ([TERM], "SIGTERM"),
        ([INT], "SIGINT"),
        ([HUP], "SIGHUP"),
        pytest.param([HUP, HUP], "SIGHUP", id="a closed terminal sends it twice"),
        pytest.param([TERM, HUP], "SIGTERM", id="systemd with SendSIGHUP"),
        pytest.param([HUP, TERM], "SIGTERM", id="stopped after its terminal was closed"),
    ],
)
def test_the_process_drains(numbers: list[signal.Signals], says: str) -> None:
    with DrainSignals() as drain:
        for number in numbers:
            os.kill(os.getpid(), number)

        assert drain.received is not None
        assert drain.received.name == says


@pytest.mark.parametrize(("first", "second"), [(TERM, TERM), (TERM, INT), (INT, INT), (INT, TERM)])
def test_a_second_signal_ends_the_process(first: signal.Signals, second: signal.Signals) -> None:
    words = [sys.executable, "-c", DRAINS, str(int(first)), str(int(second))]

    ended = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (128 + second, "")


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(HUP, signal.SIG_IGN)
    try:
        with DrainSignals() as drain:
            os.kill(os.getpid(), HUP)

            assert drain.received is None
        assert signal.getsignal(HUP) is signal.SIG_IGN
    finally:
        signal.signal(HUP, before)
