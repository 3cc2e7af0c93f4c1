"""Consumers on SQS, played by moto and ElasticMQ, are killed at every step and at random.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills of consumers and 5 of ElasticMQ.
"""

from collections.abc import Iterator
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
from tests.fixtures.servers.elasticmq_server import ElasticMqServer
from tests.fixtures.servers.sqs import EACH_SQS, need_elasticmq
from tests.fixtures.servers.sqs_server import SqsServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800), pytest.mark.xdist_group("sqs")]


@pytest.fixture(scope="module", params=EACH_SQS)
def broker(request: pytest.FixtureRequest) -> Broker:
    server: SqsServer = request.getfixturevalue(request.param)
    # moto looks at each message that waits, for each request.
    room = 20 if request.param == "sqs_server" else None
    return Broker(url=server.url, depth=server.depth, make=server.make, room=room)


@pytest.fixture
def private_broker(tmp_path: Path) -> Iterator[Broker]:
    need_elasticmq()
    with (
        pytest.MonkeyPatch.context() as environment,
        ElasticMqServer(environment, tmp_path / "sqs") as server,
    ):
        yield Broker(url=server.url, depth=server.depth, make=server.make, outages=outages_of(server))


class TestSqs(KilledAtAnyStep, KilledWhileItSends, KilledAtRandom, KilledWithTheBroker, BrokerIsAway):
    pass
