"""Consumers on SQS, which moto plays, are killed at every step and at random; effects are counted.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills.
"""

import threading
from functools import partial
from pathlib import Path

import pytest

from tests.crash.helpers.aftermath import Left, run_matrix
from tests.crash.helpers.books import (
    KILLS,
    MESSAGES,
    MOST_IN_DOUBT,
    Books,
    end,
    fleet_of,
    kill_now_and_then,
)
from tests.crash.helpers.deaths import DEATHS, Death
from tests.crash.helpers.producing import produce
from tests.crash.victims.booking_service import NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.sqs_server import SqsServer

pytestmark = [
    pytest.mark.crash,
    pytest.mark.prove,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("sqs"),
]

#: How many messages wait at most, beside those that are on their way: moto looks at each for each request.
BACKLOG = 20


@pytest.fixture(scope="module")
def deaths_left(tmp_path_factory: pytest.TempPathFactory, sqs_server: SqsServer) -> dict[Death, Left]:
    """Run the crash matrix once."""
    folder = tmp_path_factory.mktemp("sqs")
    return run_matrix(folder, sqs_server.url, f"sqlite:///{folder}/history.sqlite3", sqs_server.depth)


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_a_consumer_killed_at_any_step_leaves_what_the_pipeline_says(
    deaths_left: dict[Death, Left], death: Death, proved: Proved
) -> None:
    proved(processes_killed=1)
    deaths_left[death].check(death)


def test_each_order_is_booked_once_however_often_its_consumers_are_killed(
    tmp_path: Path, sqs_server: SqsServer, redis_url: str, proved: Proved
) -> None:
    sqs_server.make(NAME)
    depth = partial(sqs_server.depth, NAME)
    books = Books(tmp_path, sqs_server.url, redis_url, depth)
    producing = threading.Thread(target=produce, args=[sqs_server.url, lambda: depth() < BACKLOG])
    with fleet_of(books) as fleet:
        producing.start()
        kills = kill_now_and_then(fleet, books)
        producing.join()
        end(fleet, books)

    books.check(MOST_IN_DOUBT)
    assert kills == KILLS
    proved(messages=MESSAGES, processes_killed=KILLS)
