"""Consumers on Apache Kafka are killed, and so are brokers; effects are counted.

There is one broker, or there are three with replicated topics. Of three, the leader is killed, and every
second time all of them. With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills of
consumers and 5 of brokers.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.crash.brokers.test_kafka import PARTITIONS, depth_of
from tests.crash.brokers.test_kafka_share_groups import FORGETFUL, PATIENT, forgetful, url_of
from tests.crash.helpers.books import (
    BROKER_KILLS,
    KILLS,
    MESSAGES,
    MOST_IN_DOUBT,
    Books,
    end,
    fleet_of,
    kill_both,
)
from tests.crash.helpers.producing import produce
from tests.crash.victims.booking_service import NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.apache_kafka import private_kafka
from tests.fixtures.servers.apache_kafka_cluster import ApacheKafkaCluster
from tests.fixtures.servers.apache_kafka_server import AnyKafka

pytestmark = [
    pytest.mark.crash,
    pytest.mark.prove,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("kafka"),
]

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
def share_group_on_three(folder: Path) -> Generator[tuple[ApacheKafkaCluster, str], None, None]:
    with ApacheKafkaCluster(folder, **FORGETFUL) as cluster:
        cluster.set_group(f"{NAME}:{NAME}", **PATIENT)
        yield cluster, url_of(cluster)


@pytest.mark.parametrize("mode", [consumer_group, share_group, consumer_group_on_three, share_group_on_three])
def test_each_order_is_booked_once_while_consumers_and_the_broker_are_killed(
    tmp_path: Path, redis_url: str, proved: Proved, mode: Mode
) -> None:
    with mode(tmp_path) as (server, url):
        server.create(NAME, PARTITIONS)
        count = (lambda: 0) if "share" in url else partial(depth_of(server), NAME)
        books = Books(tmp_path, url, redis_url, count)
        producing = threading.Thread(target=produce, args=[url])
        with fleet_of(books) as fleet:
            producing.start()
            kills = kill_both(fleet, books, partial(restart, server))
            producing.join()
            end(fleet, books)

        books.check(MOST_IN_DOUBT)
    assert kills == (KILLS, BROKER_KILLS)
    proved(messages=MESSAGES, processes_killed=KILLS, brokers_killed=BROKER_KILLS)


def restart(server: AnyKafka | ApacheKafkaCluster) -> None:
    server.go_away()
    server.come_back()
