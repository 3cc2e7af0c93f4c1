"""Consumers on Kafka are killed at every step and at random, and so is the broker; effects are counted.

The broker is a mock cluster, which only closes its connections, and a real Apache Kafka. With
``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills, while 10 others join and leave.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.conftest import Once
from tests.crash.helpers.aftermath import Left
from tests.crash.helpers.books import KILLS, MESSAGES, MOST_IN_DOUBT, PROCESSES, end, fleet_of
from tests.crash.helpers.brokers import Broker, BrokerIsAway, KilledAtAnyStep, KilledWhileItSends
from tests.crash.helpers.deaths import Death
from tests.crash.helpers.rebalancing import GUESTS, Shares, Turmoil
from tests.crash.helpers.sends import SendsLeft
from tests.crash.victims.booking_service import CONCURRENCY, NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.apache_kafka import KINDS, private_kafka
from tests.fixtures.servers.apache_kafka_server import AnyKafka
from tests.fixtures.servers.kafka_server import KafkaUrls

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800), pytest.mark.xdist_group("kafka")]

#: Over how many partitions the orders are spread: more than there are consumers. Each worker of a process is
#: one, a guest's too. With fewer partitions a group is in balance without its guest, which gets none.
PARTITIONS = (PROCESSES + 1) * CONCURRENCY + 2


def broker_on(server: AnyKafka) -> Broker:
    def outage() -> None:
        server.go_away()
        time.sleep(2)  # long enough for every member to notice; a member that does not notice goes on
        server.come_back()

    return Broker(
        url=server.url,
        depth=depth_of(server),
        make=lambda name: server.create(name, PARTITIONS if name == NAME else 1),
        outages=[outage] * 2,
    )


def depth_of(server: KafkaUrls) -> Callable[[str], int]:
    """Return a function that counts the unsettled messages of the trigger with the topic's name."""
    return lambda name: server.depth(name, f"{name}:{name}")


@pytest.fixture(params=KINDS)
def private_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with private_kafka(request.param, tmp_path) as server:
        yield broker_on(server)


@pytest.fixture(scope="module", params=KINDS)
def deaths_left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, once: Once
) -> dict[Death, Left]:
    def run() -> dict[Death, Left]:
        folder = tmp_path_factory.mktemp("kafka")
        with private_kafka(request.param, folder) as server:
            return broker_on(server).deaths(folder)

    return once(f"deaths {request.param}", run)


@pytest.fixture(scope="module", params=KINDS)
def sends_left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, once: Once
) -> SendsLeft:
    def run() -> SendsLeft:
        folder = tmp_path_factory.mktemp("sends")
        with private_kafka(request.param, folder) as server:
            return broker_on(server).sends(folder)

    return once(f"sends {request.param}", run)


class TestKafka(KilledAtAnyStep, KilledWhileItSends, BrokerIsAway):
    pass


@pytest.mark.prove
def test_each_order_is_booked_once_while_consumers_are_killed_join_and_leave(
    tmp_path: Path, private_broker: Broker, redis_url: str, proved: Proved
) -> None:
    """Each killed process owns a partition, and each guest too: another process then takes it over."""
    books, shares = private_broker.books(tmp_path, redis_url), Shares(tmp_path)
    producing = private_broker.producer()
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
