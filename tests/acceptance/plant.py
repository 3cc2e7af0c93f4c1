"""A plant to break: Redis servers, a consumer with metrics, a dashboard, and a flow of messages."""

import os
import re
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.cookiejar import CookieJar
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener, urlopen

from prometheus_client.parser import text_string_to_metric_families
from pydantic import JsonValue

from history import Message, Uuid
from history.bridge import drive
from tests.acceptance.command_line import CommandLine
from tests.acceptance.rules import Samples
from tests.fixtures.histories import with_store
from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import text_of
from triggers import open_provider
from triggers.testing.redis_server import RedisServer, free_port

#: The seconds between two sends, and the number of messages to each trigger in a send.
PAUSE, AT_ONCE = 0.1, 2

#: The stream of each trigger.
PLACES = {"book": "orders", "ship": "parcels", "bill": "invoices"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A problem on Overview."""

    kind: str
    trigger: str
    since: datetime | None
    messages: str
    cause: str


@dataclass(slots=True)
class Plant:
    """All parts of the plant. Inside the block, all of them work."""

    folder: Path
    history: RedisServer = field(init=False)
    second: RedisServer = field(init=False)
    broker: RedisServer = field(init=False)
    consumer: "subprocess.Popen[str]" = field(init=False)
    address: str = field(init=False)
    #: The address that signs in.
    entrance: str = field(init=False)
    #: The body of the next orders, by trigger. Each function gets the number of the order.
    says: dict[str, Callable[[int], str]] = field(default_factory=dict[str, Callable[[int], str]])
    log: list[str] = field(default_factory=list[str])
    _port: int = field(default_factory=free_port)
    _browser: OpenerDirector = field(init=False)
    _stack: ExitStack = field(default_factory=ExitStack)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        self.history, self.second, self.broker = (self._server(name) for name in ("one", "two", "broker"))
        self.disk.mkdir()
        settings = {
            "SECOND_HISTORY": self.second.url,
            "LOT": f"sqlite:///{self.disk}/lot.db",
            "LOCAL_FILE": f"{self.disk}/local.db",
        }
        both = ("--history", self.history.url, "--provider", self.broker.url)
        doubtless = CommandLine(self.folder)
        self.consumer = doubtless.start(
            *("run", "faulty", "--metrics", f"127.0.0.1:{self._port}", *both), settings=settings
        )
        self._end_with(self.consumer)
        self._keep(self.consumer.stderr)
        dashboard = doubtless.start("dashboard", "faulty", "--port", "0", *both, settings=settings)
        self._end_with(dashboard)
        assert dashboard.stdout is not None
        self.address, _, token = dashboard.stdout.readline().split()[-1].partition("sign-in#")
        self._keep(dashboard.stderr)
        self._browser = build_opener(HTTPCookieProcessor(CookieJar()))
        self._browser.open(f"{self.address}sign-in", urlencode({"token": token}).encode()).close()
        self.entrance = f"{self.address}sign-in#{token}"
        traffic = threading.Thread(target=self._send)
        traffic.start()
        self._stack.callback(traffic.join)
        self._stack.callback(self._ended.set)
        eventually(self._works)

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    def send(self, place: str, body: JsonValue, uuid: str) -> None:
        provider = open_provider(self.broker.url)
        try:
            drive(provider.send(place, [Message(body=body, uuid=uuid)]))
        finally:
            drive(provider.close())

    def claim(self, trigger: str, uuid: str) -> None:
        """Claim a message, like a worker that then died."""
        with_store(self.history.url, lambda store: store.claim(trigger, [Uuid(uuid)], "host-1:42:dead"))

    def scrape(self) -> Samples:
        """Return the consumer's current metrics, or nothing if it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=60) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in cast("list[Any]", family.samples)
        }

    def overview(self) -> str:
        with self._browser.open(self.address, timeout=60) as answer:
            page: str = answer.read().decode()
        return page

    def problems(self) -> list[Shown]:
        return [_shown(row) for row in self.overview().split("<tr data-problem=")[1:]]

    def _works(self) -> bool:
        counted = self.scrape()
        runs = [counted.get(("doubtless_service_seconds_count", ("trigger", name)), 0) for name in PLACES]
        page = self.overview()
        has_asked = len(re.findall(r'"/providers">\d', page)) == len(PLACES)
        lists_all = all(f'href="/trigger?name={name}' in page for name in PLACES)
        return min(runs) > 0 and has_asked and lists_all and not self.problems()

    def _server(self, name: str) -> RedisServer:
        folder = self.folder / name
        folder.mkdir()
        return self._stack.enter_context(RedisServer(folder, appendfsync="everysec"))

    def _end_with(self, process: "subprocess.Popen[str]") -> None:
        def end() -> None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

        self._stack.callback(end)

    def _keep(self, lines: IO[str] | None) -> None:
        """Read the log of a process, because a full pipe would block it."""
        assert lines is not None

        def read() -> None:
            with lines:
                self.log.extend(lines)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()

    def _send(self) -> None:
        provider = open_provider(self.broker.url)
        numbers = count()
        while not self._ended.wait(PAUSE):
            for name, place in PLACES.items():
                some = [next(numbers) for _ in range(AT_ONCE)]
                says = self.says.get(name, _run)
                messages = [Message(body={"do": says(number)}, uuid=f"{name}-{number}") for number in some]
                with suppress(Exception):  # a broker that was killed
                    drive(provider.send(place, messages))
        drive(provider.close())


def _run(_: int) -> str:
    return "run"


def _shown(row: str) -> Shown:
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row.partition("</tr>")[0], re.DOTALL)
    since = re.search(r'datetime="([^"]+)"', cells[2])
    words = [" ".join(text_of(cell).split()) for cell in cells]
    return Shown(
        words[0],
        words[1],
        None if since is None else datetime.fromisoformat(since[1]).astimezone(UTC),
        words[3],
        words[4],
    )


def is_root() -> bool:
    return os.geteuid() == 0
