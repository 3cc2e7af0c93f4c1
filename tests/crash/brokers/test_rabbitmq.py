"""Consumers on RabbitMQ are killed at every step and at random, and so is the broker; effects are counted.

Everything runs over both wires: AMQP 0-9-1 to RabbitMQ 3.10, and AMQP 1.0 to RabbitMQ 4.
With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills of consumers and 5 of the broker.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

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
from tests.fixtures.servers.rabbitmq import new_rabbitmq, new_rabbitmq4
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.integration.helpers.rabbitmq_queues import depth, subscribe

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900), pytest.mark.xdist_group("rabbitmq")]

#: A quorum queue is safe from a kill of its broker so long after it was declared, in seconds.
SETTLING = 3.0

#: The fixtures of the servers that tests share, by wire.
SERVERS = {"rabbitmq": "rabbitmq_server", "amqp": "rabbitmq4_server"}


def broker_on(server: RabbitmqServer, wire: str, options: str = "") -> Broker:
    url = f"{wire}://{server.address}/{options}"

    return Broker(
        url=url,
        depth=partial(depth, server),
        make=partial(subscribe, url),
        outages=outages_of(server, SETTLING),
    )


@pytest.fixture(scope="module", params=SERVERS)
def broker(request: pytest.FixtureRequest) -> Broker:
    """The broker that most tests share, over each wire."""
    return broker_on(request.getfixturevalue(SERVERS[request.param]), request.param)


@pytest.fixture(params=SERVERS)
def private_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, to stop and to kill."""
    with new_rabbitmq(tmp_path) if request.param == "rabbitmq" else new_rabbitmq4() as server:
        yield broker_on(server, request.param)


class TestRabbitmq(KilledAtAnyStep, KilledWhileItSends, KilledAtRandom, BrokerIsAway):
    pass


class TestSoaks(KilledWithTheBroker):
    @pytest.fixture(params=["quorum", "classic", "amqp"])
    def private_broker(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
        """RabbitMQ 3.10 with each kind of queue, and RabbitMQ 4."""
        if request.param == "amqp":
            with new_rabbitmq4() as server:
                yield broker_on(server, "amqp")
        else:
            with new_rabbitmq(tmp_path) as server:
                yield broker_on(server, "rabbitmq", f"?queue_type={request.param}")
