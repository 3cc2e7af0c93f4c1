"""Members of a share group are killed at every step and at random; effects are counted.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills. What a share group has not
answered cannot be asked of this broker: an empty queue is not looked for. So of the matrix it is not shown
that everything is answered in the end, but that nothing is lost, nothing twice, and all is accounted for.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crash.brokers.test_kafka import PARTITIONS
from tests.crash.helpers.aftermath import Left, run_matrix
from tests.crash.helpers.books import KILLS, MESSAGES, MOST_IN_DOUBT, Books, end, fleet_of, kill_now_and_then
from tests.crash.helpers.deaths import DEATHS, Death
from tests.crash.helpers.producing import produce
from tests.crash.victims.booking_service import NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.waiting import patience

pytestmark = [
    pytest.mark.crash,
    pytest.mark.prove,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("kafka"),
]

#: More deliveries than there will be: this broker counts one for all members whenever a connection ends.
LIMIT = 10_000


@contextmanager
def forgetful() -> Generator[tuple[KafkaServer, str], None, None]:
    """Run a broker that takes a silent member for dead soon; yield it with a provider's URL."""
    with KafkaServer(brokers=2) as server:
        server.deliver_at_most(LIMIT)
        server.forget_after(patience(4))
        yield server, f"kafka://{server.address}?share=true&delivery_limit={LIMIT}"


@pytest.fixture(scope="module")
def deaths_left(tmp_path_factory: pytest.TempPathFactory) -> dict[Death, Left]:
    """Run the crash matrix once."""
    folder = tmp_path_factory.mktemp("kafka-share-groups")
    with forgetful() as (server, url):
        for death in DEATHS:
            server.create(death.name, 1)
        return run_matrix(folder, url, f"sqlite:///{folder}/history.sqlite3", lambda _: 0)


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_a_member_killed_at_any_step_leaves_what_the_pipeline_says(
    deaths_left: dict[Death, Left], death: Death, proved: Proved
) -> None:
    proved(processes_killed=1)
    deaths_left[death].check(death)


def test_each_order_is_booked_once_however_often_members_are_killed(
    tmp_path: Path, redis_url: str, proved: Proved
) -> None:
    with forgetful() as (server, url):
        server.create(NAME, PARTITIONS)
        books = Books(tmp_path, url, redis_url, lambda: 0)
        producing = threading.Thread(target=produce, args=[url])
        with fleet_of(books) as fleet:
            producing.start()
            kills = kill_now_and_then(fleet, books)
            producing.join()
            end(fleet, books)

        books.check(MOST_IN_DOUBT)
    assert kills == KILLS
    proved(messages=MESSAGES, processes_killed=KILLS)
