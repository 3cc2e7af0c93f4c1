"""Consumers on Apache Kafka are killed, and so are brokers; effects are counted.

There is one broker, or there are three with replicated topics. If there are three, the leader is killed, or
every second time all three. With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills of
consumers and 5 of brokers.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.crash.brokers.test_kafka import PARTITIONS, depth_of
from tests.crash.brokers.test_kafka_share_groups import FORGETFUL, PATIENT, forgetful, url_of
from tests.crash.helpers.brokers import Broker, KilledWithTheBroker
from tests.crash.victims.booking_service import NAME
from tests.fixtures.servers.apache_kafka import private_kafka
from tests.fixtures.servers.apache_kafka_cluster import ApacheKafkaCluster
from tests.fixtures.servers.apache_kafka_server import AnyKafka
from tests.fixtures.servers.kafka_server import count_unread

pytestmark = [
    pytest.mark.crash,
    pytest.mark.prove,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("kafka"),
]

#: In the new group protocol the brokers decide when a silent member is dead.
QUICK = {
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_session_timeout_ms": "4000",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "500",
}

#: Starts a broker, and returns it with the URL of a provider.
Mode = Callable[[Path], AbstractContextManager[tuple[AnyKafka | ApacheKafkaCluster, str]]]


@contextmanager
def consumer_group(folder: Path) -> Generator[tuple[AnyKafka, str], None, None]:
    with private_kafka("apache", folder) as server:
        yield server, server.url


@contextmanager
def share_group(folder: Path) -> Generator[tuple[AnyKafka, str], None, None]:
    with forgetful("apache", folder, NAME) as (server, url):
        yield server, url


@contextmanager
def consumer_group_on_three(folder: Path) -> Generator[tuple[ApacheKafkaCluster, str], None, None]:
    with ApacheKafkaCluster(folder) as cluster:
        yield cluster, cluster.url


@contextmanager
def new_protocol_on_three(folder: Path) -> Generator[tuple[ApacheKafkaCluster, str], None, None]:
    with ApacheKafkaCluster(folder, **QUICK) as cluster:
        yield cluster, f"{cluster.url}&group.protocol=consumer"


@contextmanager
def transactions_on_three(folder: Path) -> Generator[tuple[ApacheKafkaCluster, str], None, None]:
    """Only the producer of the orders sends: the id is its own."""
    with ApacheKafkaCluster(folder) as cluster:
        yield cluster, f"{cluster.url}&transactional_id=orders"


@contextmanager
def share_group_on_three(folder: Path) -> Generator[tuple[ApacheKafkaCluster, str], None, None]:
    with ApacheKafkaCluster(folder, **FORGETFUL) as cluster:
        cluster.set_group(f"{NAME}:{NAME}", **PATIENT)
        yield cluster, url_of(cluster)


MODES: Sequence[Mode] = [
    *(consumer_group, share_group, consumer_group_on_three, new_protocol_on_three),
    *(transactions_on_three, share_group_on_three),
]


def depth_for(url: str, server: AnyKafka | ApacheKafkaCluster) -> Callable[[str], int]:
    """Return a function that counts the unsettled messages; a share group does not tell their number."""
    if "share" in url:
        return lambda _: 0
    if "transactional_id" in url:
        return lambda name: count_unread(server.address, name, f"{name}:{name}")
    return depth_of(server)


@pytest.fixture(params=MODES)
def private_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    mode: Mode = request.param
    with mode(tmp_path) as (server, url):

        def restart() -> None:
            server.go_away()
            server.come_back()

        yield Broker(
            url=url,
            depth=depth_for(url, server),
            make=lambda name: server.create(name, PARTITIONS),
            outages=[restart],
        )


class TestKafka(KilledWithTheBroker):
    pass
