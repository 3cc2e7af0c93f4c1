"""A transacted service sends two messages and fails twice; its process dies at every step of the third try.

Downstream, each of the two runs once, even if one was sent before the death: a later try has the same uuids.
The tests of brokers are beside their crash matrix.
"""

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.crash.conftest import Once, empty_database
from tests.crash.helpers.aftermath import count_unanswered
from tests.crash.helpers.sends import SendsLeft, run_sends
from tests.crash.victims.sending_victim import POINTS, Case
from tests.fixtures.needed import missing
from tests.fixtures.proof import Proved
from tests.integration.helpers.rabbitmq_queues import subscribe
from triggers.testing.redis_server import RedisServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

STORES = [
    pytest.param("redis", marks=pytest.mark.xdist_group("sends-redis")),
    pytest.param("sqlite", marks=pytest.mark.xdist_group("sends-sqlite")),
    pytest.param("postgresql", marks=[pytest.mark.xdist_group("sends-postgresql"), pytest.mark.prove]),
]


@pytest.fixture
def sends_left(
    store: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, once: Once
) -> SendsLeft:
    """Run the processes of a store, once for all its cases."""

    def run() -> SendsLeft:
        folder = tmp_path_factory.mktemp(f"sends-{store}")
        if store == "postgresql":
            return run_over(folder, empty_database(request.getfixturevalue("postgres_server")))
        if store == "sqlite":
            return run_over(folder, f"sqlite:///{folder}/shop.sqlite3")
        if shutil.which("redis-server") is None:
            missing("redis-server", "apt-get install redis-server")
        with RedisServer(folder, appendfsync="everysec") as server:  # no other test flushes it
            return run_over(folder, server.url)

    return once(f"sends {store}", run)


def run_over(folder: Path, url: str) -> SendsLeft:
    """Run the processes; messages and history are in one store."""
    return run_sends(folder, url, url, partial(count_unanswered, url), partial(subscribe, url))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", ["single", "batch"])
@pytest.mark.parametrize("point", POINTS)
def test_each_message_runs_once_downstream(
    sends_left: SendsLeft, kind: str, point: str, proved: Proved
) -> None:
    proved(processes_killed=1)

    sends_left.check(Case(kind, point))


@pytest.mark.parametrize("store", STORES[1:])
@pytest.mark.parametrize("point", POINTS)
def test_a_message_sent_in_the_transaction_of_the_effects_runs_once_downstream(
    sends_left: SendsLeft, point: str, proved: Proved
) -> None:
    proved(processes_killed=1)

    sends_left.check(Case("atomic", point))
