"""Members of a share group are killed at every step and at random; effects are counted.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills. This broker cannot tell which
messages a share group has not answered, so no test waits for an empty queue. The matrix does not show that
every message is answered in the end. It shows that no message is lost, runs twice, or is unaccounted for.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crash.brokers.test_kafka import PARTITIONS
from tests.crash.conftest import Once, empty_database
from tests.crash.helpers.aftermath import Left
from tests.crash.helpers.brokers import Broker, KilledAtAnyStep, KilledAtRandom, KilledWhileItSends
from tests.crash.helpers.deaths import DEATHS, Death
from tests.crash.helpers.sends import SendsLeft
from tests.crash.victims.booking_service import NAME
from tests.crash.victims.sending_victim import DESTINATIONS, cases_of
from tests.fixtures.servers.apache_kafka import KINDS
from tests.fixtures.servers.apache_kafka_server import AnyKafka, ApacheKafkaServer
from tests.fixtures.servers.kafka_server import KafkaServer, KafkaUrls
from tests.fixtures.waiting import patience

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800), pytest.mark.xdist_group("kafka")]

#: More deliveries than there will be on the mock, which counts one for all members whenever a connection
#: ends. Apache Kafka takes no more than 25.
LIMIT, MOST = 10_000, 25


@contextmanager
def forgetful(kind: str, folder: Path, *names: str) -> Generator[tuple[AnyKafka, str], None, None]:
    """Run a broker with groups for triggers of these names; yield it with a provider's URL.

    It takes a silent member for dead soon.
    """
    with mock_cluster() if kind == "mock" else apache_kafka(folder, names) as server:
        yield server, url_of(server)


def url_of(server: KafkaUrls) -> str:
    return f"kafka://{server.address}?share=true&delivery_limit={LIMIT}"


@contextmanager
def mock_cluster() -> Generator[KafkaServer, None, None]:
    with KafkaServer(brokers=2) as server:
        server.deliver_at_most(LIMIT)
        server.forget_after(patience(4))
        yield server


#: Brokers that take a silent member for dead soon.
FORGETFUL = {
    "group_share_session_timeout_ms": "4000",
    "group_share_record_lock_duration_ms": "4000",
    "group_share_max_delivery_count_limit": str(MOST),
}

#: The settings of a group.
PATIENT = {"share_auto_offset_reset": "earliest", "share_delivery_count_limit": str(MOST)}


@contextmanager
def apache_kafka(folder: Path, names: Iterable[str]) -> Generator[ApacheKafkaServer, None, None]:
    with ApacheKafkaServer(folder / "apache-kafka", **FORGETFUL) as server:
        for name in names:
            server.set_group(f"{name}:{name}", **PATIENT)
        yield server


def broker_on(server: AnyKafka, url: str) -> Broker:
    return Broker(
        url=url, depth=lambda _: 0, make=lambda name: server.create(name, PARTITIONS if name == NAME else 1)
    )


@pytest.fixture(scope="module", params=KINDS)
def deaths_left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Death, Left]:
    """Run the crash matrix once; members get their first message at one time, too many for a SQLite file."""
    folder = tmp_path_factory.mktemp("kafka-share-groups")
    history = empty_database(request.getfixturevalue("postgres_server"))
    with forgetful(request.param, folder, *(death.name for death in DEATHS)) as (server, url):
        return broker_on(server, url).deaths(folder, history)


@pytest.fixture(scope="module", params=KINDS)
def sends_left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, once: Once
) -> SendsLeft:
    def run() -> SendsLeft:
        folder = tmp_path_factory.mktemp("share-group-sends")
        senders = [case.name for case in cases_of("kafka://", "sqlite://")]
        with forgetful(request.param, folder, *senders, *DESTINATIONS) as (server, url):
            return broker_on(server, url).sends(folder)

    return once(f"share group sends {request.param}", run)


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with forgetful(request.param, tmp_path, NAME) as (server, url):
        yield broker_on(server, url)


class TestShareGroups(KilledAtAnyStep, KilledWhileItSends, KilledAtRandom):
    pass
