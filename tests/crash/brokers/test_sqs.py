"""Consumers on SQS, which moto plays, are killed at every step and at random; effects are counted.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills.
"""

import pytest

from tests.crash.helpers.brokers import Broker, KilledAtAnyStep, KilledAtRandom, KilledWhileItSends
from tests.fixtures.servers.sqs_server import SqsServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800), pytest.mark.xdist_group("sqs")]


@pytest.fixture(scope="module")
def broker(sqs_server: SqsServer) -> Broker:
    # moto looks at each message that waits, for each request.
    return Broker(url=sqs_server.url, depth=sqs_server.depth, make=sqs_server.make, room=20)


class TestSqs(KilledAtAnyStep, KilledWhileItSends, KilledAtRandom):
    pass
