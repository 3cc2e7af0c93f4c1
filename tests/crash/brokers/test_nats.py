"""Consumers on NATS are killed at every step and at random, and so is the server; effects are counted.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills of consumers and 5 of the server.
"""

from collections.abc import Iterator

import pytest

from tests.crash.helpers.aftermath import Left
from tests.crash.helpers.brokers import (
    Broker,
    BrokerIsAway,
    KilledAtAnyStep,
    KilledAtRandom,
    KilledWhileItSends,
    KilledWithTheBroker,
)
from tests.crash.helpers.deaths import Death
from tests.crash.helpers.sends import SendsLeft
from tests.fixtures.servers.nats_server import NatsServer
from triggers.providers.nats.settings import plain

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800), pytest.mark.xdist_group("nats")]


def broker_on(server: NatsServer) -> Broker:
    def killed() -> None:
        server.kill()
        server.start()

    def stopped() -> None:
        server.stop()
        server.start()

    return Broker(
        url=server.url,
        depth=lambda name: server.unsettled(name, plain(f"{name}:{name}")),
        outages=[killed, stopped],
    )


@pytest.fixture(scope="module")
def deaths_left(tmp_path_factory: pytest.TempPathFactory) -> dict[Death, Left]:
    with NatsServer() as server:
        return broker_on(server).deaths(tmp_path_factory.mktemp("nats"))


@pytest.fixture(scope="module")
def sends_left(tmp_path_factory: pytest.TempPathFactory) -> SendsLeft:
    with NatsServer() as server:
        return broker_on(server).sends(tmp_path_factory.mktemp("sends"))


@pytest.fixture
def private_broker() -> Iterator[Broker]:
    with NatsServer() as server:
        yield broker_on(server)


@pytest.fixture
def broker(private_broker: Broker) -> Broker:
    return private_broker


class TestNats(KilledAtAnyStep, KilledWhileItSends, KilledAtRandom, KilledWithTheBroker, BrokerIsAway):
    pass
