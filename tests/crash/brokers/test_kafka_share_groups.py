"""Members of a share group are killed at random; effects are counted.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills. What a share group has not
answered cannot be asked of this broker: an empty queue is not looked for.
"""

import threading
from pathlib import Path

import pytest

from tests.crash.brokers.test_kafka import PARTITIONS
from tests.crash.helpers.books import KILLS, MESSAGES, MOST_IN_DOUBT, Books, end, fleet_of, kill_now_and_then
from tests.crash.helpers.producing import produce
from tests.crash.victims.booking_service import NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.kafka_server import KafkaServer

pytestmark = [
    pytest.mark.crash,
    pytest.mark.prove,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("kafka"),
]

#: More deliveries than there will be: this broker counts one for all members whenever a connection ends.
LIMIT = 10_000


def test_each_order_is_booked_once_however_often_members_are_killed(
    tmp_path: Path, redis_url: str, proved: Proved
) -> None:
    with KafkaServer(brokers=2) as server:
        server.create(NAME, PARTITIONS)
        server.deliver_at_most(LIMIT)
        server.forget_after(4)
        url = f"kafka://{server.address}?share=true&delivery_limit={LIMIT}"
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
