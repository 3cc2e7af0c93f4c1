"""A transacted service sends two messages and fails twice; its process dies at every step of the third try.

Downstream, each of the two runs once, whatever has left before the death: a later try sends the same uuids.
"""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from history.bridge import drive
from history.message import Message
from history.opening import open_history
from tests.crash.helpers.aftermath import DEADLINE, impatient
from tests.crash.victims.sending_victim import POINTS, sent_by
from tests.fixtures.needed import missing
from tests.fixtures.proof import Proved
from tests.fixtures.servers.activemq import ACTIVEMQ
from triggers.providers.opening import open_provider
from triggers.testing.redis_server import RedisServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

every_store = pytest.mark.parametrize(
    "store",
    [
        pytest.param("redis", marks=pytest.mark.xdist_group("sends-redis")),
        pytest.param("sqljms", marks=pytest.mark.xdist_group("sends-sqljms")),
        pytest.param("jms", marks=[ACTIVEMQ, pytest.mark.prove]),
    ],
)


class Left:
    """What one store's processes have left behind: all of them die, then another one finishes."""

    def __init__(self, folder: Path, provider: str, history: str) -> None:
        self.folder, self.history = folder, history
        url = impatient(provider)
        opened = open_provider(url)
        for point in POINTS:
            for name in (f"orders-{point}", f"invoices-{point}", f"letters-{point}"):
                drive(drive(opened.open_receiver(name, subscription=name, name="first")).close())
            drive(opened.send(f"orders-{point}", [Message(uuid="order-1", body="")]))
        drive(opened.close())
        for task in ("kill", "finish"):
            command = [sys.executable, "-m", "tests.crash.victims.sending_victim"]
            told = [str(folder), url, history, task]
            subprocess.run([*command, *told], check=True, timeout=DEADLINE)

    def downstream(self, point: str) -> Counter[str]:
        """Count what ran downstream, by kind."""
        return sent_by(self.folder, point).counts()

    def parked(self) -> list[str]:
        """Name the triggers that have parked anything."""
        store = open_history(self.history)
        found = [one.trigger_name for one in drive(store.parking.list())]
        drive(store.close())
        return found


@pytest.fixture(scope="module")
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server that nobody flushes meanwhile."""
    if shutil.which("redis-server") is None:
        missing("redis-server", "apt-get install redis-server")
    with RedisServer(tmp_path_factory.mktemp("redis"), appendfsync="everysec") as server:
        yield server


@pytest.fixture(scope="module")
def runs() -> dict[str, Left]:
    """What was left over each store: its processes run once, for all points."""
    return {}


@pytest.fixture
def left(
    store: str,
    runs: dict[str, Left],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Left:
    """Return what is left over one store."""
    if store not in runs:
        folder = tmp_path_factory.mktemp(f"sends-{store}")
        history = f"sqlite:///{folder}/history.sqlite3"
        provider = f"sqlite:///{folder}/messages.sqlite3"
        if store == "redis":
            provider = history = request.getfixturevalue("own_redis").url
        elif store == "jms":
            provider = request.getfixturevalue("activemq").url
        runs[store] = Left(folder, provider, history)
    return runs[store]


@every_store
@pytest.mark.parametrize("point", POINTS)
def test_each_message_runs_once_downstream(left: Left, point: str, proved: Proved) -> None:
    proved(processes_killed=1)

    assert left.downstream(point) == {"invoices": 1, "letters": 1}
    assert left.parked() == []
