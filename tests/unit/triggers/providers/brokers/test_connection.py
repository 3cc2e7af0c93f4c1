"""The connection of a provider: several threads open, share and close it."""

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from history.bridge import drive
from history.shell import ThreadShell
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import ProviderUnavailableError, open_provider
from triggers.providers.brokers.connection import PATIENCE as BROKERS_PATIENCE
from triggers.providers.brokers.connection import BrokerConnection, LivingConnection
from triggers.providers.brokers.url import BrokerUrl


class Line(BrokerConnection):
    """A connection without a broker; ``starting`` is called at its start."""

    def __init__(self, starting: Callable[[], None]) -> None:
        url = BrokerUrl.read("amqp://127.0.0.1", example="amqp://host", ports=(5672, 5671), known=set())
        super().__init__(url, ThreadShell())
        self._starting = starting
        self.closed = 0

    def start(self) -> None:
        self._starting()
        self.ready.set_result(None)

    async def close(self) -> None:
        self.closed += 1


def test_a_connection_that_cannot_start_is_made_again() -> None:
    def starting() -> None:
        if len(made) == 1:
            raise RuntimeError("can't start new thread")

    def make() -> Line:
        made.append(Line(starting))
        return made[-1]

    made: list[Line] = []
    living = LivingConnection(make)

    with pytest.raises(RuntimeError):
        drive(living.opened())

    assert drive(living.opened()) is made[1]


def test_a_connection_that_is_closed_while_it_is_opened_has_started_before() -> None:
    def starting() -> None:
        closing.start()
        closing.join(0.1)  # it waits until the connection has started

    living = LivingConnection(lambda: line)
    closing = threading.Thread(target=lambda: drive(living.close()))
    line = Line(starting)

    opened = drive(living.opened())
    closing.join()

    assert (opened, line.closed) == (line, 1)
    drive(living.close())
    assert line.closed == 1


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


@pytest.mark.parametrize("scheme", ["rabbitmq", "rabbitmqs", "amqp", "amqps"])
def test_a_connection_that_has_not_opened_can_be_closed(scheme: str, silent: socket.socket) -> None:
    host = f"127.0.0.1:{silent.getsockname()[1]}"
    provider: Any = open_provider(f"{scheme}://u:p@{host},{host}")
    failures: list[ProviderUnavailableError] = []
    before = set(threading.enumerate())

    def ping() -> None:
        try:
            drive(provider.ping())
        except ProviderUnavailableError as error:
            failures.append(error)

    asking = threading.Thread(target=ping)
    asking.start()
    line, _ = silent.accept()
    line.settimeout(PATIENCE)
    assert line.recv(1), "the client waits for an answer"
    begun = time.monotonic()
    drive(provider.close())
    took = time.monotonic() - begun
    asking.join()
    line.close()

    assert (len(failures), took < BROKERS_PATIENCE) == (1, True)
    eventually(lambda: set(threading.enumerate()) <= before)
    failures.clear()
    gc.collect()  # Python warns about a socket that nobody closed
