"""The circuit breaker by itself: when it opens, who probes, and what ends the probing."""

import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import pytest

from history.circuit import JITTER, PROBE_INTERVAL, THREAD_NAME, Circuit, CircuitOpenError, is_on, pause_after
from history.errors import ConfigurationError, HistoryUnavailableError
from tests.fixtures.waiting import PATIENCE, eventually

REFUSED = ConnectionError("connection refused\n\tIs the server running?")


class Server:
    def __init__(self, *, up: bool = False) -> None:
        self.up = up
        self.probes = 0
        self.error: Exception | None = None
        self.death: SystemExit | None = None

    def answers(self) -> bool:
        self.probes += 1
        if self.death is not None:
            raise self.death
        if self.error is not None:
            raise self.error
        return self.up


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def circuit(server: Server) -> Iterator[Circuit]:
    gc.collect()
    eventually(lambda: probing() == 0)  # the probes of other tests end when nothing refers to their circuits
    circuit = Circuit("the server", server.answers)
    yield circuit
    circuit.close()
    eventually(lambda: probing() == 0)


def probing() -> int:
    return sum(thread.name == THREAD_NAME for thread in threading.enumerate())


def test_a_closed_circuit_refuses_nothing(circuit: Circuit) -> None:
    assert not circuit.is_open
    circuit.refuse("claiming")
    assert probing() == 0


def test_an_open_circuit_says_since_when_why_and_when_it_asks_next(circuit: Circuit) -> None:
    circuit.open(REFUSED)

    assert circuit.is_open
    with pytest.raises(HistoryUnavailableError) as caught:
        circuit.refuse("claiming")

    assert isinstance(caught.value, CircuitOpenError)
    told = str(caught.value)
    assert told.startswith("the document history is unavailable while claiming: the circuit is open since ")
    assert f"{caught.value.since:%H:%M:%S} UTC (connection refused), next probe in " in told


def test_a_driver_that_raises_has_not_answered(circuit: Circuit, server: Server) -> None:
    server.error = ValueError("no such thing")
    circuit.open(REFUSED)

    eventually(lambda: server.probes >= 2)

    assert circuit.is_open
    assert probing() == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_probe_that_ends_its_thread_closes_the_circuit(circuit: Circuit, server: Server) -> None:
    server.death = SystemExit()
    circuit.open(REFUSED)

    eventually(lambda: not circuit.is_open and probing() == 0)

    assert server.probes == 1


def test_however_many_threads_open_it_one_probes_and_the_log_has_two_lines(
    circuit: Circuit, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(circuit.open, repeat(REFUSED, 64)))
    assert probing() == 1

    server.up = True
    eventually(lambda: not circuit.is_open and probing() == 0)

    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    opened, closed = [record.getMessage() for record in caplog.records]
    assert opened == "the server does not answer (connection refused): calls fail at once until it does"
    assert closed.startswith("the server answers again, after ")


def test_a_slow_reply_opens_nothing_while_the_server_answers(
    circuit: Circuit, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.up = True

    circuit.open(TimeoutError("timed out"), sure=False)
    assert not circuit.is_open
    eventually(lambda: probing() == 0)

    assert (server.probes, circuit.is_open, caplog.records) == (1, False, [])


def test_a_slow_reply_opens_it_when_a_probe_is_not_answered_either(circuit: Circuit, server: Server) -> None:
    circuit.open(TimeoutError("timed out"), sure=False)

    eventually(lambda: circuit.is_open)

    assert server.probes >= 1


def test_a_failed_attempt_to_connect_confirms_a_slow_reply(circuit: Circuit) -> None:
    circuit.open(TimeoutError("timed out"), sure=False)
    circuit.open(REFUSED)

    assert circuit.is_open
    assert probing() == 1


def test_closing_ends_the_probing_for_good(circuit: Circuit) -> None:
    circuit.open(REFUSED)

    circuit.close()
    eventually(lambda: probing() == 0)
    circuit.open(REFUSED)

    assert (circuit.is_open, probing()) == (False, 0)


def test_a_circuit_that_nobody_has_any_more_is_not_probed_for(server: Server) -> None:
    circuit = Circuit("the server", server.answers)
    circuit.open(REFUSED)

    del circuit
    gc.collect()

    eventually(lambda: probing() == 0)


def test_a_forked_child_does_not_believe_in_its_parents_thread(
    circuit: Circuit, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit.open(REFUSED)

    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        circuit.refuse("claiming")
        assert not circuit.is_open
        circuit.open(REFUSED)
        assert circuit.is_open
        circuit.close()

    circuit.close()


def test_an_open_circuit_does_not_keep_the_interpreter_alive() -> None:
    code = "from history.circuit import Circuit; c = Circuit('s', bool); c.open(OSError()); assert c.is_open"

    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=PATIENCE)

    assert ended.returncode == 0, ended.stderr.decode()


@pytest.mark.parametrize("age", [0.0, 0.5, 3.0, 60.0, 86_400.0])
def test_the_pause_grows_with_the_outage_up_to_the_interval(age: float) -> None:
    pause = pause_after(age)

    assert 0 < pause <= PROBE_INTERVAL * (1 + JITTER)
    assert pause <= (0.05 + age / 4) * (1 + JITTER)
    assert pause >= min(0.05 + age / 4, PROBE_INTERVAL) * (1 - JITTER)


def test_the_setting_of_a_url_is_on_or_off() -> None:
    assert [is_on(None), is_on("on"), is_on("off")] == [True, True, False]
    with pytest.raises(ConfigurationError, match="circuit: must be on or off, not"):
        is_on("no")
