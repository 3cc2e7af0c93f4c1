"""The connection of a provider, which its callers share: it is opened and closed by several threads."""

import threading
from collections.abc import Callable

import pytest

from history.bridge import drive
from history.shell import ThreadShell
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
