"""Consumers on NATS are killed at every step and at random, and so is the server; effects are counted.

With ``DOUBTLESS_FULL=1`` 20,000 messages are sent, and there are 20 kills.
"""

import threading
from collections.abc import Callable, Iterator
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
from tests.crash.victims.booking_service import LONG_LEASE, NAME
from tests.fixtures.proof import Proved
from tests.fixtures.servers.nats_server import NatsServer
from triggers.providers.nats.settings import plain

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800), pytest.mark.xdist_group("nats")]


@pytest.fixture
def nats() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture(scope="module")
def deaths_left(tmp_path_factory: pytest.TempPathFactory) -> dict[Death, Left]:
    """Run the crash matrix once."""
    folder = tmp_path_factory.mktemp("nats")
    with NatsServer() as server:
        return run_matrix(folder, server.url, f"sqlite:///{folder}/history.sqlite3", depth_of(server))


def depth_of(server: NatsServer) -> Callable[[str], int]:
    """Return what counts the messages that the trigger of a subject's name has not settled."""
    return lambda name: server.unsettled(name, plain(f"{name}:{name}"))


@pytest.mark.prove
@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_a_consumer_killed_at_any_step_leaves_what_the_pipeline_says(
    deaths_left: dict[Death, Left], death: Death, proved: Proved
) -> None:
    proved(processes_killed=1)
    deaths_left[death].check(death)


def books_of(folder: Path, server: NatsServer, history: str) -> Books:
    return Books(folder, server.url, history, partial(depth_of(server), NAME))


@pytest.mark.prove
def test_each_order_is_booked_once_however_often_its_consumers_are_killed(
    tmp_path: Path, nats: NatsServer, redis_url: str, proved: Proved
) -> None:
    books = books_of(tmp_path, nats, redis_url)
    producing = threading.Thread(target=produce, args=[nats.url])
    with fleet_of(books) as fleet:
        producing.start()
        kills = kill_now_and_then(fleet, books)
        producing.join()
        end(fleet, books)

    books.check(MOST_IN_DOUBT)
    assert kills == KILLS
    proved(messages=MESSAGES, processes_killed=KILLS)


@pytest.mark.prove
@pytest.mark.parametrize("ending", [NatsServer.kill, NatsServer.stop], ids=["killed", "stopped"])
def test_consumers_and_producers_go_on_when_the_server_comes_back(
    tmp_path: Path, nats: NatsServer, redis_url: str, ending: Callable[[NatsServer], None], proved: Proved
) -> None:
    books = books_of(tmp_path, nats, redis_url)
    due = [MESSAGES // 4, MESSAGES // 2]
    producing = threading.Thread(target=produce, args=[nats.url])
    with fleet_of(books, lease=LONG_LEASE) as fleet:
        producing.start()
        for effects in fleet.watch(lambda: not due and books.over()):
            if due and effects >= due[0]:
                del due[0]
                ending(nats)
                nats.start()
        producing.join()
        end(fleet, books)

    books.check(most_in_doubt=0)
    proved(messages=MESSAGES)
