"""Consumers on ActiveMQ are killed at every step and at random, and so is the broker; effects are counted.

With ``DOUBTLESS_FULL=1`` the Java producer sends 20,000 messages, and there are 20 kills.
"""

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.crash.helpers.aftermath import Left, run_matrix
from tests.crash.helpers.books import KILLS, MESSAGES, MOST_IN_DOUBT, Books, fleet_of, kill_now_and_then
from tests.crash.helpers.deaths import DEATHS, Death
from tests.crash.victims.booking_service import LONG_LEASE, NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.activemq import ACTIVEMQ, JavaPeer
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.integration.helpers.jms_queues import depth

pytestmark = [ACTIVEMQ, pytest.mark.crash, pytest.mark.timeout(600)]

#: A tenth is sent twice.
COPIES = MESSAGES // 10


@pytest.fixture(scope="module")
def deaths_left(activemq: ActiveMqServer, tmp_path_factory: pytest.TempPathFactory) -> dict[Death, Left]:
    """Run the crash matrix once, with messages from ActiveMQ."""
    folder = tmp_path_factory.mktemp("deaths")
    history = f"sqlite:///{folder}/history.sqlite3"
    return run_matrix(folder, activemq.url, history, partial(depth, activemq.url))


@pytest.mark.prove
@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_a_consumer_killed_at_any_step_leaves_what_the_pipeline_says(
    deaths_left: dict[Death, Left], death: Death, proved: Proved
) -> None:
    proved(processes_killed=1)
    deaths_left[death].check(death)


def books_of(folder: Path, server: ActiveMqServer, history: str) -> Books:
    return Books(folder, server.url, history, partial(depth, server.url, NAME))


@pytest.mark.prove
def test_each_order_of_a_java_producer_is_booked_once_however_often_its_consumers_are_killed(
    tmp_path: Path, activemq: ActiveMqServer, redis_url: str, java_peer: JavaPeer, proved: Proved
) -> None:
    books = books_of(tmp_path, activemq, redis_url)
    started = time.monotonic()
    with fleet_of(books) as fleet:
        java_peer(activemq, "flood", NAME, MESSAGES, COPIES)
        kills = kill_now_and_then(fleet, books)
        fleet.drain()

    told = books.check(MOST_IN_DOUBT)
    print(f"{kills} kills in {time.monotonic() - started:.0f} s: {told}")  # noqa: T201  (for whoever asks)
    assert kills == KILLS
    proved(messages=MESSAGES, processes_killed=KILLS)


@pytest.mark.prove
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_consumers_reconnect_to_a_broker_that_was_away(
    end: str, tmp_path: Path, private_activemq: ActiveMqServer, redis_url: str, java_peer: JavaPeer
) -> None:
    books = books_of(tmp_path, private_activemq, redis_url)
    take_away: Callable[[], None] = private_activemq.kill if end == "killed" else private_activemq.stop
    java_peer(private_activemq, "flood", NAME, MESSAGES, COPIES)
    seen: Counter[str] = Counter()
    with fleet_of(books, 1, lease=LONG_LEASE) as fleet:
        for effects in fleet.watch(books.over):
            if effects >= MESSAGES // 3 and not seen["outages"]:
                seen["outages"] += 1
                take_away()
                private_activemq.start()
        fleet.drain()

    told = books.check(most_in_doubt=0)
    print(f"the broker was {end}: {told}")  # noqa: T201  (for whoever asks)
    assert seen["outages"] == 1
