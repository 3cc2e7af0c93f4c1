"""Consumers on RabbitMQ are killed at every step and at random, and so is the broker; effects are counted.

Everything runs over both wires: AMQP 0-9-1 to RabbitMQ 3.10, and AMQP 1.0 to RabbitMQ 4.
With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import cast

import pytest

from tests.crash.helpers.aftermath import Left, run_matrix
from tests.crash.helpers.books import (
    KILLS,
    MESSAGES,
    MOST_IN_DOUBT,
    Books,
    end,
    fleet_of,
    kill_now_and_then,
)
from tests.crash.helpers.deaths import DEATHS, Death
from tests.crash.helpers.producing import produce
from tests.crash.victims.booking_service import LONG_LEASE, NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.rabbitmq import new_rabbitmq, new_rabbitmq4
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.integration.helpers.rabbitmq_queues import depth, subscribe

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900), pytest.mark.xdist_group("rabbitmq")]

#: A quorum queue is safe from a kill of its broker so long after it was declared, in seconds.
SETTLING = 3.0

WIRES = ["rabbitmq", "amqp"]


@dataclass(frozen=True, slots=True)
class Broker:
    """A server, and the scheme of the wire to it."""

    server: RabbitmqServer
    scheme: str

    @property
    def url(self) -> str:
        """The provider's URL."""
        return f"{self.scheme}://{self.server.address}/"

    def depth(self, name: str) -> int:
        """Count what waits for a subscription."""
        return depth(self.server, name)


def shared(request: pytest.FixtureRequest, wire: str) -> Broker:
    name = {"rabbitmq": "rabbitmq_server", "amqp": "rabbitmq4_server"}[wire]
    return Broker(cast("RabbitmqServer", request.getfixturevalue(name)), wire)


@pytest.fixture(params=["rabbitmq", pytest.param("amqp", marks=pytest.mark.prove)])
def broker(request: pytest.FixtureRequest) -> Broker:
    """The broker that most tests share, over each wire."""
    return shared(request, cast("str", request.param))


@pytest.fixture(params=WIRES)
def private_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, to stop and to kill."""
    wire = cast("str", request.param)
    with ExitStack() as running:
        server = new_rabbitmq(tmp_path) if wire == "rabbitmq" else new_rabbitmq4()
        yield Broker(running.enter_context(server), wire)


#: What is left of each death, by wire.
Deaths = Callable[[str], dict[Death, Left]]


@pytest.fixture(scope="module")
def deaths_left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Deaths:
    """Run the crash matrix once for each wire."""

    @cache
    def run(wire: str) -> dict[Death, Left]:
        folder, broker = tmp_path_factory.mktemp(wire), shared(request, wire)
        subscribe(broker.url, *(death.name for death in DEATHS))
        return run_matrix(folder, broker.url, f"sqlite:///{folder}/history.sqlite3", broker.depth)

    return run


@pytest.mark.prove
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_a_consumer_killed_at_any_step_leaves_what_the_pipeline_says(
    deaths_left: Deaths, wire: str, death: Death, proved: Proved
) -> None:
    proved(processes_killed=1)
    deaths_left(wire)[death].check(death)


def books_of(folder: Path, broker: Broker, history: str) -> Books:
    subscribe(broker.url, NAME)
    return Books(folder, broker.url, history, partial(broker.depth, NAME))


@pytest.mark.prove
def test_each_order_is_booked_once_however_often_its_consumers_are_killed(
    tmp_path: Path, broker: Broker, redis_url: str, proved: Proved
) -> None:
    books = books_of(tmp_path, broker, redis_url)
    started = time.monotonic()
    producing = threading.Thread(target=produce, args=[broker.url])
    with fleet_of(books) as fleet:
        producing.start()
        kills = kill_now_and_then(fleet, books)
        producing.join()
        end(fleet, books)

    told = books.check(MOST_IN_DOUBT)
    seconds = time.monotonic() - started
    print(f"{broker.scheme}: {kills} kills in {seconds:.0f} s: {told}")  # noqa: T201  (for whoever asks)
    assert kills == KILLS
    proved(messages=MESSAGES, processes_killed=KILLS)


@pytest.mark.prove
def test_consumers_and_producers_reconnect_to_a_broker_that_was_killed_and_stopped(
    tmp_path: Path, private_broker: Broker, redis_url: str
) -> None:
    books = books_of(tmp_path, private_broker, redis_url)
    server = private_broker.server
    time.sleep(SETTLING)
    ends = {MESSAGES // 4: server.kill, MESSAGES // 2: server.stop}
    producing = threading.Thread(target=produce, args=[private_broker.url])
    with fleet_of(books, lease=LONG_LEASE) as fleet:
        producing.start()
        for effects in fleet.watch(lambda: not ends and books.over()):
            if ends and effects >= min(ends):
                ends.pop(min(ends))()
                server.start()
        producing.join()
        end(fleet, books)

    told = books.check(most_in_doubt=0)
    print(f"{private_broker.scheme}: killed, and stopped: {told}")  # noqa: T201  (as above)
