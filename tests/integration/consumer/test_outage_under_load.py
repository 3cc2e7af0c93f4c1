"""A server goes away under load and comes back: nothing is lost or runs twice, and memory stays small.

With ``DOUBTLESS_FULL=1`` it stays away for 30 seconds; ``pytest -s`` shows what was measured.
"""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from history.bridge import drive
from tests import ROOT
from tests.fixtures.scale import sized
from tests.fixtures.waiting import PATIENCE, eventually, patience
from tests.integration.consumer.loaded_consumer import CONCURRENCY, DESTINATIONS, effects_of, parking_file
from tests.integration.helpers.consumers import is_drained, parked_in
from triggers import Message, UnavailableError, open_provider
from triggers.testing.postgres_server import PostgresServer
from triggers.testing.redis_server import RedisServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

OUTAGE_SECONDS = sized(3, full=30)

#: How many messages a sender sends in one call, and how many seconds it then waits.
BATCH, REST = 10, 0.15

#: After so many messages, the sender sends each of them again. The second one is a duplicate.
AGAIN = 200

#: Consumers soon look for messages that were given back.
FAST = "?reclaim_interval=0.1"

#: A consumer's memory may grow by so many KiB while a server is away.
GROWTH = 24 * 1024

#: The log may have so many lines in that time. Each worker waits longer and longer, so it writes few lines.
LINES, LINES_A_SECOND = 100, 5

#: How long everything may take to be processed in the end, in seconds.
DEADLINE = patience(60.0 + 4 * OUTAGE_SECONDS)


@dataclass(slots=True)
class Sender:
    """Sends all messages twice to one destination. Repeats a failed send with the same uuids."""

    url: str
    destination: str
    sent: list[str] = field(default_factory=list[str])
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        provider = open_provider(self.url)
        while not self.over.wait(REST):
            first = len(self.sent)
            uuids = [f"{self.destination}/{number}" for number in range(first, first + BATCH)]
            again = self.sent[first - AGAIN :][:BATCH] if first >= AGAIN else []
            messages = [Message(uuid=uuid, body="x" * 100) for uuid in uuids + again]
            while not self._arrived(partial(provider.send, self.destination, messages)):
                time.sleep(REST)
            self.sent += uuids
        drive(provider.close())

    def _arrived(self, send: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        try:
            drive(send())
        except UnavailableError:
            return False
        return True


@contextlib.contextmanager
def sending(url: str) -> Generator[list[Sender], None, None]:
    senders = [Sender(url, destination) for destination in DESTINATIONS]
    threads = [threading.Thread(target=sender.run) for sender in senders]
    for thread in threads:
        thread.start()
    try:
        yield senders
    finally:
        for sender in senders:
            sender.over.set()
        for thread in threads:
            thread.join()


@dataclass(frozen=True, slots=True)
class Process:
    """The consumer, watched from outside."""

    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def resident(self) -> int:
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    @property
    def lines(self) -> int:
        return self.log.read_bytes().count(b"\n")


@contextlib.contextmanager
def consuming(folder: Path, provider: str, history: str, form: str) -> Generator[Process, None, None]:
    log = folder / "log"
    words = [
        sys.executable,
        "-m",
        "tests.integration.consumer.loaded_consumer",
        str(folder),
        provider,
        history,
        form,
    ]
    with log.open("wb") as target:
        popen = subprocess.Popen(words, stderr=target, cwd=ROOT)
    try:
        yield Process(popen, log)
        popen.send_signal(signal.SIGTERM)
        assert popen.wait(PATIENCE) == 0, log.read_text()[-2000:]
    finally:
        popen.kill()
        popen.wait()


@dataclass(frozen=True, slots=True)
class Watched:
    """Measurements while a server was away: the consumer's memory in KiB, and the lines of its log."""

    before: int
    most: int
    lines: int


def watch(process: Process) -> Watched:
    before, lines, most = process.resident, process.lines, 0
    until = time.monotonic() + OUTAGE_SECONDS
    while time.monotonic() < until:
        most = max(most, process.resident)
        time.sleep(0.1)
    return Watched(before, most, process.lines - lines)


@dataclass(frozen=True, slots=True)
class Outage:
    """One run: load, an outage, load again, and the state at the end."""

    folder: Path
    provider: str
    history: str
    form: str
    take_away: Callable[[], object]
    give_back: Callable[[], object]

    def run(self) -> tuple[set[str], Watched]:
        """Return the uuids that were sent, and the measurements."""
        effects = effects_of(self.folder)
        with consuming(self.folder, self.provider + FAST, self.history, self.form) as process:
            with sending(self.provider) as senders:
                eventually(lambda: len(effects.lines()) > 200, DEADLINE)
                self.take_away()
                watched = watch(process)
                seen = len(effects.lines())
                self.give_back()
                back = time.monotonic()
                eventually(lambda: len(effects.lines()) > seen + 100, DEADLINE)
                resumed = time.monotonic() - back
            eventually(lambda: all(is_drained(self.provider, name) for name in DESTINATIONS), DEADLINE)
        sent = {uuid for sender in senders for uuid in sender.sent}
        parked = len(self.parked() & sent)
        told = f"{len(sent)} sent, {parked} parked, 100 more done {resumed:.1f} s after it"
        print(f"away for {OUTAGE_SECONDS} s: {told}, {watched}")  # noqa: T201  (for whoever asks with -s)
        return sent, watched

    def parked(self) -> set[str | None]:
        """Return the uuids of what is parked, beside the history or in the local file."""
        local = parking_file(self.folder)
        lots = [self.history, *([f"sqlite:///{local}"] if local.exists() else [])]
        return {one.uuid for url in lots for name in DESTINATIONS for one in parked_in(url, name)}


def check(outage: Outage) -> None:
    sent, watched = outage.run()

    runs: Counter[str] = effects_of(outage.folder).counts()
    parked = outage.parked()
    assert {uuid for uuid, times in runs.items() if times > 1} == set(), "ran twice"
    assert sent - set(runs) - parked == set(), "lost"
    # Messages in flight may have been claimed without having started. They are In Doubt and parked.
    assert len(sent - set(runs)) <= CONCURRENCY * len(DESTINATIONS)
    assert watched.most - watched.before <= GROWTH
    assert watched.lines <= LINES + LINES_A_SECOND * OUTAGE_SECONDS


@pytest.mark.parametrize(
    ("end", "form"), [("killed", "blocking"), pytest.param("stopped", "asyncio", marks=pytest.mark.prove)]
)
def test_redis_is_provider_and_history_and_goes_away(
    tmp_path: Path, private_redis: RedisServer, end: str, form: str
) -> None:
    url = private_redis.url
    take_away = private_redis.kill if end == "killed" else private_redis.stop

    check(Outage(tmp_path, url, url, form, take_away, private_redis.start))


@pytest.mark.parametrize(("end", "form"), [("stopped", "asyncio"), ("killed", "blocking")])
@pytest.mark.prove
def test_postgresql_is_the_history_and_goes_away(
    tmp_path: Path, redis_url: str, private_postgres: PostgresServer, end: str, form: str
) -> None:
    take_away = private_postgres.kill if end == "killed" else private_postgres.stop

    check(Outage(tmp_path, redis_url, private_postgres.url, form, take_away, private_postgres.start))
