"""Consumers on Kafka are killed at every step and at random, and so is the broker; effects are counted.

The broker is a mock cluster, which only closes its connections, and a real Apache Kafka. With
``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills, while 10 others join and leave.
"""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.crash.helpers.aftermath import Left, run_matrix
from tests.crash.helpers.books import (
    KILLS,
    MESSAGES,
    MOST_IN_DOUBT,
    PROCESSES,
    Books,
    end,
    fleet_of,
)
from tests.crash.helpers.deaths import DEATHS, Death
from tests.crash.helpers.producing import produce
from tests.crash.helpers.rebalancing import GUESTS, Shares, Turmoil
from tests.crash.victims.booking_service import CONCURRENCY, LONG_LEASE, NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.apache_kafka import KINDS, private_kafka
from tests.fixtures.servers.apache_kafka_server import AnyKafka

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800), pytest.mark.xdist_group("kafka")]

#: Over how many partitions the orders are spread: more than there are consumers. Each worker of a process is
#: one, a guest's too. With fewer partitions a group is in balance without its guest, which gets none.
PARTITIONS = (PROCESSES + 1) * CONCURRENCY + 2


@pytest.fixture(params=KINDS)
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyKafka]:
    with private_kafka(request.param, tmp_path) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def deaths_left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Death, Left]:
    """Run the crash matrix once."""
    folder = tmp_path_factory.mktemp("kafka")
    with private_kafka(request.param, folder) as server:
        for death in DEATHS:
            server.create(death.name, 1)
        return run_matrix(folder, server.url, f"sqlite:///{folder}/history.sqlite3", depth_of(server))


def depth_of(server: AnyKafka) -> Callable[[str], int]:
    """Return what counts the messages that the trigger of a topic's name has not settled."""
    return lambda name: server.depth(name, f"{name}:{name}")


@pytest.mark.prove
@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_a_consumer_killed_at_any_step_leaves_what_the_pipeline_says(
    deaths_left: dict[Death, Left], death: Death, proved: Proved
) -> None:
    proved(processes_killed=1)
    deaths_left[death].check(death)


def books_of(folder: Path, server: AnyKafka, history: str) -> Books:
    server.create(NAME, PARTITIONS)
    return Books(folder, server.url, history, partial(depth_of(server), NAME))


@pytest.mark.prove
def test_each_order_is_booked_once_while_consumers_are_killed_join_and_leave(
    tmp_path: Path, kafka: AnyKafka, redis_url: str, proved: Proved
) -> None:
    """Whoever is killed owns a partition, and so does each guest: all of these have successors."""
    books, shares = books_of(tmp_path, kafka, redis_url), Shares(tmp_path)
    producing = threading.Thread(target=produce, args=[kafka.url])
    with fleet_of(books, service="tests.crash.victims.sharing_service") as fleet:
        fleet.wait_for(lambda: all(shares.of(one) for one in fleet.running))
        turmoil = Turmoil(fleet, shares)
        producing.start()
        for effects in fleet.watch(books.over):
            turmoil.go_on(effects)
        producing.join()
        fleet.wait_for(turmoil.is_over)
        fleet.wait_for(lambda: shares.of(*fleet.running) == set(range(PARTITIONS)))
        owners, given_up = shares.owners(), shares.given_up()
        end(fleet, books)

    books.check(MOST_IN_DOUBT)
    assert owners >= PARTITIONS + KILLS + GUESTS
    assert given_up >= GUESTS
    proved(messages=MESSAGES, processes_killed=KILLS, partitions_moved=owners - PARTITIONS)


@pytest.mark.prove
def test_consumers_and_producers_reconnect_to_a_broker_that_was_away(
    tmp_path: Path, kafka: AnyKafka, redis_url: str
) -> None:
    books = books_of(tmp_path, kafka, redis_url)
    due = [MESSAGES // 4, MESSAGES // 2]
    producing = threading.Thread(target=produce, args=[kafka.url])
    with fleet_of(books, lease=LONG_LEASE) as fleet:
        producing.start()
        for effects in fleet.watch(lambda: not due and books.over()):
            if due and effects >= due[0]:
                del due[0]
                kafka.go_away()
                time.sleep(2)  # long enough for everybody to notice; whoever does not, goes on
                kafka.come_back()
        producing.join()
        end(fleet, books)

    books.check(most_in_doubt=0)
