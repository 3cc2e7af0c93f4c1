"""Consumers on SQS, played by moto and ElasticMQ, are killed at every step and at random.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills.
"""

import pytest

from tests.crash.helpers.brokers import Broker, KilledAtAnyStep, KilledAtRandom, KilledWhileItSends
from tests.fixtures.servers.sqs import EACH_SQS
from tests.fixtures.servers.sqs_server import SqsServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800), pytest.mark.xdist_group("sqs")]


@pytest.fixture(scope="module", params=EACH_SQS)
def broker(request: pytest.FixtureRequest) -> Broker:
    server: SqsServer = request.getfixturevalue(request.param)
    # moto looks at each message that waits, for each request.
    room = 20 if request.param == "sqs_server" else None
    return Broker(url=server.url, depth=server.depth, make=server.make, room=room)


class TestSqs(KilledAtAnyStep, KilledWhileItSends, KilledAtRandom):
    pass
