"""A thousand failed messages are parked, the server's fences change, and an operator runs or settles them.

After a restart, Redis takes its first fence from its clock, in microseconds. A completed entry keeps only the
low 24 bits of its fence. After 17 seconds these bits start again from the same value.
"""

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from history.bridge import drive
from history.entry import KEPT_FENCES, EntryOutcome
from history.opening import open_history
from tests.acceptance.in_process import InProcess
from tests.fixtures.servers.redis_sentinel import watched_redis
from tests.integration.history.redis.test_redis_fences import move_fences
from triggers.testing.redis_server import RedisServer

pytestmark = [pytest.mark.prove, pytest.mark.crash]

MESSAGES = 1_000

#: How long the server is away, in seconds: longer than 24 bits of microseconds.
AWAY = 20.0

UUIDS = [f"order-{number}" for number in range(MESSAGES)]

SERVICE = """
from pathlib import Path
from triggers import FatalError, Message, trigger

@trigger("orders", name="book")
def book(message: Message) -> None:
    if Path("bug").exists():
        raise FatalError("no price")
    with Path("effects").open("a") as effects:
        effects.write(f"{message.uuid}\\n")
"""


@dataclass
class Desk:
    """An operator in a folder with the service; :attr:`change` happens to the server."""

    doubtless: InProcess
    url: str
    change: Callable[[], object]

    def say(self, *words: str) -> str:
        """Run a command that must succeed; return its output."""
        answer = self.doubtless(*words, DOUBTLESS_HISTORY=self.url, DOUBTLESS_PROVIDER=self.url)
        assert answer.code == 0, answer.err
        return answer.out

    def receive(self, *uuids: str) -> None:
        """Send messages, and run the service until all have arrived."""
        lines = [json.dumps({"headers": {"uuid": uuid}, "body": {}}) for uuid in uuids]
        (self.doubtless.folder / "orders.jsonl").write_text("\n".join(lines))
        self.say("send", "orders", "orders.jsonl")
        self.say("run", "desk_service", "--until-idle", "1")

    @property
    def parked(self) -> int:
        return len(json.loads(self.say("parked", "list", "--limit", str(2 * MESSAGES), "--json")))

    @property
    def effects(self) -> Counter[str]:
        file = self.doubtless.folder / "effects"
        return Counter(file.read_text().split() if file.exists() else [])

    def outcomes(self) -> Counter[EntryOutcome | None]:
        """Return how the messages ended, from the history."""
        store = open_history(self.url)
        try:
            entries = drive(store.lookup("book", UUIDS))
        finally:
            drive(store.close())
        return Counter(None if entry is None else entry.outcome for entry in entries)


def restarted(folder: Path, running: ExitStack) -> tuple[str, Callable[[], object]]:
    server = running.enter_context(RedisServer(folder))

    def kill_and_start() -> None:
        server.kill()
        time.sleep(AWAY)
        server.start()

    return server.url, kill_and_start


def failed_over(folder: Path, running: ExitStack) -> tuple[str, Callable[[], object]]:
    watched = running.enter_context(watched_redis(folder))

    def fail_over() -> None:
        watched.fail_over()
        time.sleep(AWAY)

    return watched.url, fail_over


def wrapped(folder: Path, running: ExitStack) -> tuple[str, Callable[[], object]]:
    server = running.enter_context(RedisServer(folder))
    return server.url, lambda: move_fences(server.url, KEPT_FENCES)


@pytest.fixture(params=[restarted, failed_over, wrapped])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    """An operator, and a thousand messages that have failed."""
    servers, work = tmp_path / "servers", tmp_path / "work"
    servers.mkdir()
    work.mkdir()
    (work / "desk_service.py").write_text(SERVICE)
    (work / "bug").touch()
    with ExitStack() as running:
        url, change = request.param(servers, running)
        desk = Desk(InProcess(work), url, change)
        desk.receive(*UUIDS)
        assert (desk.parked, desk.outcomes()) == (MESSAGES, {EntryOutcome.FAILED: MESSAGES})
        (work / "bug").unlink()
        desk.change()
        desk.receive("new")  # has the server grant a fence
        yield desk


def test_all_of_them_can_be_run(desk: Desk) -> None:
    desk.say("parked", "run", "desk_service", "--trigger", "book", "--yes", "--reason", "the price is there")

    assert desk.effects == Counter([*UUIDS, "new"])
    assert (desk.parked, desk.outcomes()) == (0, {EntryOutcome.OK: MESSAGES})


def test_all_of_them_can_be_settled(desk: Desk) -> None:
    desk.say("parked", "done", "--trigger", "book", "--yes", "--reason", "booked by hand")
    desk.receive(*UUIDS)  # duplicates now

    assert desk.effects == Counter(["new"])
    assert (desk.parked, desk.outcomes()) == (0, {EntryOutcome.OK: MESSAGES})
