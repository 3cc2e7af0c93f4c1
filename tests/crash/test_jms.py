"""Consumers on ActiveMQ are killed at every step and at random, and so is the broker; effects are counted.

With ``DOUBTLESS_FULL=1`` the Java producer sends 5,000 messages, and there are 10 kills.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from history.parking import Parked, ParkedKind
from tests.crash.aftermath import Left, run_matrix
from tests.crash.deaths import DEATHS, Death
from tests.crash.fleet import Fleet
from tests.crash.jms_service import CONCURRENCY, NAME, effects_of
from tests.fixtures.activemq import ACTIVEMQ, JavaPeer
from tests.fixtures.scale import sized
from tests.integration.consuming import parked_in
from tests.integration.jms_looking import depth
from triggers.testing.activemq_server import ActiveMqServer

pytestmark = [ACTIVEMQ, pytest.mark.crash, pytest.mark.timeout(600)]

MESSAGES = sized(300, full=5000)

#: A tenth is sent twice; there is a kill for each 500 messages, and at least two.
COPIES, KILLS = MESSAGES // 10, max(2, MESSAGES // 500)

PROCESSES = 2


@pytest.fixture(scope="module")
def deaths_left(activemq: ActiveMqServer, tmp_path_factory: pytest.TempPathFactory) -> dict[Death, Left]:
    """Run the crash matrix once, with messages from ActiveMQ."""
    folder = tmp_path_factory.mktemp("deaths")
    history = f"sqlite:///{folder}/history.sqlite3"
    return run_matrix(folder, activemq.url, history, partial(depth, activemq.url))


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_a_consumer_killed_at_any_step_leaves_what_the_pipeline_says(
    deaths_left: dict[Death, Left], death: Death
) -> None:
    deaths_left[death].check(death)


class Books:
    """What the fleet has booked and parked, and what is left in the queue."""

    def __init__(self, folder: Path, server: ActiveMqServer, history: str) -> None:
        self.folder = folder
        self.server = server
        self.history = history
        self.expected = {f"order-{number}" for number in range(MESSAGES)}

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
        parked = {one.uuid for one in self.parked}
        return booked | parked >= self.expected and depth(self.server.url, NAME) == 0

    def check(self, most_in_doubt: int) -> str:
        """Say that nothing is lost, nothing twice, and what is not booked is In Doubt; and tell of it."""
        booked = effects_of(self.folder).counts()
        parked = self.parked
        assert {uuid: times for uuid, times in booked.items() if times > 1} == {}
        assert {one.kind for one in parked} <= {ParkedKind.IN_DOUBT}
        doubtful = {one.uuid for one in parked}
        assert self.expected - set(booked) <= doubtful <= self.expected
        assert len(doubtful) <= most_in_doubt
        assert depth(self.server.url, NAME) == 0
        return (
            f"{len(booked)} booked once, {len(doubtful)} of {MESSAGES} In Doubt: {sorted(map(str, doubtful))}"
        )


def fleet_of(books: Books, processes: int) -> Fleet:
    return Fleet(
        service="tests.crash.jms_service",
        folder=books.folder,
        effects=effects_of(books.folder),
        provider=books.server.url,
        history=books.history,
        processes=processes,
    )


def test_each_order_of_a_java_producer_is_booked_once_however_often_its_consumers_are_killed(
    tmp_path: Path, activemq: ActiveMqServer, redis_url: str, java_peer: JavaPeer
) -> None:
    books = Books(tmp_path, activemq, redis_url)
    due = [MESSAGES * (number + 1) // (KILLS + 2) for number in range(KILLS)]
    kills, started = 0, time.monotonic()
    with fleet_of(books, PROCESSES) as fleet:
        java_peer(activemq, "flood", NAME, MESSAGES, COPIES)
        for effects in fleet.watch(books.over):
            if due and effects >= due[0]:
                fleet.kill(fleet.running[0])
                del due[0]
                kills += 1
        fleet.drain()

    told = books.check(most_in_doubt=KILLS * CONCURRENCY)
    print(f"{kills} kills in {time.monotonic() - started:.0f} s: {told}")  # noqa: T201  (for whoever asks)
    assert kills == KILLS


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_consumers_reconnect_to_a_broker_that_was_away(
    end: str, tmp_path: Path, private_activemq: ActiveMqServer, redis_url: str, java_peer: JavaPeer
) -> None:
    books = Books(tmp_path, private_activemq, redis_url)
    take_away: Callable[[], None] = private_activemq.kill if end == "killed" else private_activemq.stop
    java_peer(private_activemq, "flood", NAME, MESSAGES, COPIES)
    seen: Counter[str] = Counter()
    with fleet_of(books, 1) as fleet:
        for effects in fleet.watch(books.over):
            if effects >= MESSAGES // 3 and not seen["outages"]:
                seen["outages"] += 1
                take_away()
                private_activemq.start()
        fleet.drain()

    told = books.check(most_in_doubt=0)
    print(f"the broker was {end}: {told}")  # noqa: T201  (for whoever asks)
    assert seen["outages"] == 1
