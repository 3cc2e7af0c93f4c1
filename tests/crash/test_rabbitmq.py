"""Consumers on RabbitMQ are killed at every step and at random, and so is the broker; effects are counted.

Everything runs over both wires: AMQP 0-9-1 to RabbitMQ 3.10, and AMQP 1.0 to RabbitMQ 4.
With ``DOUBTLESS_FULL=1`` 5,000 messages are sent, and there are 10 kills.
"""

import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import pytest

from history.bridge import drive
from history.errors import UnavailableError
from history.message import Message
from history.parking import Parked, ParkedKind
from tests.crash.aftermath import Left, run_matrix
from tests.crash.deaths import DEATHS, Death
from tests.crash.fleet import Fleet
from tests.crash.jms_service import CONCURRENCY, NAME, effects_of
from tests.fixtures.rabbitmq import new_rabbitmq, new_rabbitmq4
from tests.fixtures.scale import sized
from tests.integration.consuming import eventually, parked_in
from tests.integration.rabbitmq_looking import depth, subscribe
from triggers.providers.opening import open_provider
from triggers.testing.rabbitmq_server import RabbitmqServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900), pytest.mark.xdist_group("rabbitmq")]

MESSAGES = sized(300, full=5000)

#: There is a kill for each 500 messages, and at least two.
KILLS = max(2, MESSAGES // 500)

PROCESSES = 2

#: How many are sent at once; a tenth of them once more with the next ones.
BATCH = 50

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


@pytest.fixture(params=WIRES)
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


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_a_consumer_killed_at_any_step_leaves_what_the_pipeline_says(
    deaths_left: Deaths, wire: str, death: Death
) -> None:
    deaths_left(wire)[death].check(death)


class Books:
    """What was sent, and what the fleet has booked and parked of it."""

    def __init__(self, folder: Path, broker: Broker, history: str) -> None:
        self.folder = folder
        self.broker = broker
        self.history = history
        self.expected = [f"order-{number}" for number in range(MESSAGES)]
        self.sent = 0
        subscribe(broker.url, NAME)

    def produce(self) -> None:
        """Send everything, a tenth of it twice; and again, under the same uuids, what may be lost."""
        provider = open_provider(self.broker.url)
        copies: list[str] = []
        for first in range(0, MESSAGES + 1, BATCH):  # the last one has only copies
            uuids = self.expected[first : first + BATCH]
            batch = [Message(uuid=uuid, body={"id": int(uuid[6:])}) for uuid in uuids + copies]
            while not _arrived(partial(provider.send, NAME, batch)):
                time.sleep(0.1)
            self.sent += len(batch)
            copies = uuids[: BATCH // 10]
        drive(provider.close())

    @property
    def parked(self) -> Sequence[Parked]:
        """What is parked, beside the history or in the local file."""
        local = self.folder / "parked.sqlite3"
        lots = [self.history, *([f"sqlite:///{local}"] if local.exists() else [])]
        return [one for lot in lots for one in parked_in(lot, NAME)]

    def over(self) -> bool:
        """Whether each order is booked or parked, and the queue is empty."""
        booked = set(effects_of(self.folder).counts())
        if len(booked) + PROCESSES * CONCURRENCY * (KILLS + 2) < MESSAGES:
            return False
        return booked | {one.uuid for one in self.parked} >= set(self.expected) and self.drained()

    def drained(self) -> bool:
        """Whether nothing waits in the queue."""
        return self.broker.depth(NAME) == 0

    def check(self, most_in_doubt: int) -> str:
        """Say that nothing is lost, nothing twice, and what is not booked is In Doubt; and tell of it."""
        booked, expected = effects_of(self.folder).counts(), set(self.expected)
        parked = self.parked
        assert {uuid: times for uuid, times in booked.items() if times > 1} == {}
        assert {one.kind for one in parked} <= {ParkedKind.IN_DOUBT}
        doubtful = {one.uuid for one in parked}
        assert expected - set(booked) <= doubtful <= expected
        assert len(doubtful) <= most_in_doubt
        # What the drained processes had fetched is back in the queue by now, if anything is.
        assert self.drained()
        return (
            f"{len(booked)} booked once, {len(doubtful)} of {MESSAGES} In Doubt: {sorted(map(str, doubtful))}"
        )


def _arrived(send: Callable[[], Coroutine[Any, Any, object]]) -> bool:
    try:
        drive(send())
    except UnavailableError:
        return False
    return True


def fleet_of(books: Books) -> Fleet:
    return Fleet(
        service="tests.crash.jms_service",
        folder=books.folder,
        effects=effects_of(books.folder),
        provider=books.broker.url,
        history=books.history,
        processes=PROCESSES,
    )


def test_each_order_is_booked_once_however_often_its_consumers_are_killed(
    tmp_path: Path, broker: Broker, redis_url: str
) -> None:
    books = Books(tmp_path, broker, redis_url)
    due = [MESSAGES * (number + 1) // (KILLS + 2) for number in range(KILLS)]
    kills, started = 0, time.monotonic()
    producer = threading.Thread(target=books.produce)
    with fleet_of(books) as fleet:
        producer.start()
        for effects in fleet.watch(books.over):
            if due and effects >= due[0]:
                fleet.kill(fleet.running[0])
                del due[0]
                kills += 1
        producer.join()
        eventually(books.drained)
        fleet.drain()

    told = books.check(most_in_doubt=KILLS * CONCURRENCY)
    seconds = time.monotonic() - started
    print(f"{broker.scheme}: {kills} kills in {seconds:.0f} s: {books.sent} sent, {told}")  # noqa: T201  (for whoever asks)
    assert kills == KILLS


def test_consumers_and_producers_reconnect_to_a_broker_that_was_killed_and_stopped(
    tmp_path: Path, private_broker: Broker, redis_url: str
) -> None:
    books, server = Books(tmp_path, private_broker, redis_url), private_broker.server
    time.sleep(SETTLING)
    ends = {MESSAGES // 4: server.kill, MESSAGES // 2: server.stop}
    producer = threading.Thread(target=books.produce)
    with fleet_of(books) as fleet:
        producer.start()
        for effects in fleet.watch(lambda: not ends and books.over()):
            if ends and effects >= min(ends):
                ends.pop(min(ends))()
                server.start()
        producer.join()
        eventually(books.drained)
        fleet.drain()

    told = books.check(most_in_doubt=0)
    print(f"{private_broker.scheme}: killed, and stopped: {books.sent} sent, {told}")  # noqa: T201  (as above)
