"""Consumers on NATS are killed at every step and at random, and so is the server; effects are counted.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills of consumers and 5 of the server.
"""

from collections.abc import Iterator

import pytest

from tests.crash.helpers.brokers import (
    Broker,
    BrokerIsAway,
    KilledAtAnyStep,
    KilledAtRandom,
    KilledWhileItSends,
    KilledWithTheBroker,
    outages_of,
)
from tests.fixtures.servers.nats_server import NatsServer
from triggers.providers.nats.settings import plain

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800), pytest.mark.xdist_group("nats")]


def broker_on(server: NatsServer) -> Broker:
    return Broker(
        url=server.url,
        depth=lambda name: server.unsettled(name, plain(f"{name}:{name}")),
        outages=outages_of(server),
    )


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with NatsServer() as server:
        yield broker_on(server)


@pytest.fixture
def private_broker() -> Iterator[Broker]:
    with NatsServer() as server:
        yield broker_on(server)


class TestNats(KilledAtAnyStep, KilledWhileItSends, KilledAtRandom, KilledWithTheBroker, BrokerIsAway):
    pass
