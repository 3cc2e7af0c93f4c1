"""Consumers on ActiveMQ and Artemis are killed at every step and at random, and so is the broker.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills of consumers and 5 of the broker.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.crash.helpers.books import KILLS, MESSAGES, MOST_IN_DOUBT, fleet_of, kill_now_and_then
from tests.crash.helpers.brokers import (
    Broker,
    BrokerIsAway,
    KilledAtAnyStep,
    KilledWhileItSends,
    KilledWithTheBroker,
    outages_of,
)
from tests.crash.victims.booking_service import NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.activemq import ACTIVEMQ, JavaPeer, need_activemq
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.fixtures.servers.artemis import need_artemis
from tests.fixtures.servers.artemis_server import ArtemisServer
from tests.integration.helpers.jms_queues import depth

pytestmark = [ACTIVEMQ, pytest.mark.crash, pytest.mark.timeout(600)]

#: A tenth is sent twice.
COPIES = MESSAGES // 10


def broker_on(server: ActiveMqServer | ArtemisServer) -> Broker:
    return Broker(url=server.url, depth=partial(depth, server.url))


@pytest.fixture(scope="module", params=["activemq", pytest.param("artemis", marks=pytest.mark.prove)])
def broker(request: pytest.FixtureRequest) -> Broker:
    return broker_on(request.getfixturevalue(request.param))


@pytest.fixture(
    params=[(ActiveMqServer, need_activemq), (ArtemisServer, need_artemis)], ids=["activemq", "artemis"]
)
def private_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    server_of, need = request.param
    need()
    with server_of(tmp_path / "broker") as server:
        yield Broker(url=server.url, depth=partial(depth, server.url), outages=outages_of(server))


class TestJms(KilledAtAnyStep, KilledWhileItSends, KilledWithTheBroker, BrokerIsAway):
    pass


@pytest.mark.prove
def test_each_order_of_a_java_producer_is_booked_once_however_often_its_consumers_are_killed(
    tmp_path: Path, activemq: ActiveMqServer, redis_url: str, java_peer: JavaPeer, proved: Proved
) -> None:
    books = broker_on(activemq).books(tmp_path, redis_url)
    with fleet_of(books) as fleet:
        java_peer(activemq, "flood", NAME, MESSAGES, COPIES)
        kills = kill_now_and_then(fleet, books)
        fleet.drain()

    books.check(MOST_IN_DOUBT)
    assert kills == KILLS
    proved(messages=MESSAGES, processes_killed=KILLS)
