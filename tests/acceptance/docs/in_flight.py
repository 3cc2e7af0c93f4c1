"""Examples of the docs run in two processes. Copies arrive in the middle of a run, and processes die."""

import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from tests import ROOT
from tests.acceptance.command_line import CommandLine
from tests.acceptance.docs.pages import blocks
from tests.fixtures.waiting import eventually, patience
from tests.integration.helpers.consumers import is_drained
from triggers.demo.orders import make_orders

#: The first line of the service in docs/resolvers.md. The test adds a pause before it sells.
SELL = "def sell(sale: dict[str, float], delivery: Delivery) -> None:\n"

#: Its declaration. The test adds a lease, and copies and other workers wait until it ends.
DECLARED = "resolver=already_sold)\n"

#: The lease, in seconds.
LEASE = max(6.0, patience(6.0))

#: The sales; each is sent twice. A worker fetches ten at a time: one has originals, the other their copies.
SALES = [f"sale-{number}" for number in range(10)]

#: A worker of the demo runs so many orders in parallel.
CONCURRENCY = 4

#: The demo's file has so many different orders, and so many broken lines.
ORDERS, BROKEN = 200, 5


@dataclass(frozen=True, slots=True)
class Site:
    """A folder, the command line in it, and the Redis that the reader has started."""

    doubtless: CommandLine
    redis_url: str

    def sell_while_copies_come(self) -> None:
        """Run the shop of docs/resolvers.md with a resolver in two processes. No process dies."""
        self._copy_readme()

        with self._running("shop"), self._running("shop"):
            eventually(lambda: self._log().count("running book-sale") == 2)
            self._send_sales()
            eventually(lambda: self._sold().keys() == set(SALES) and self._nothing_waits("sales"))

        assert self._sold() == dict.fromkeys(SALES, 1)
        assert self._parked() == []

    def sell_while_workers_are_killed(self) -> None:
        """Run the shop of docs/resolvers.md in two processes, and kill them in turn."""
        self._copy_readme()

        with ExitStack() as shift:
            workers = [shift.enter_context(self._running("shop")) for _ in range(2)]
            eventually(lambda: self._log().count("running book-sale") == 2)
            self._send_sales()
            for kill in range(1, 4):
                eventually(lambda kill=kill: len(self._sold()) >= 2 * kill)  # type: ignore[misc]
                workers.pop(0).kill()
                workers.append(shift.enter_context(self._running("shop")))
            eventually(lambda: self._sold().keys() == set(SALES) and self._nothing_waits("sales"))

        assert self._sold() == dict.fromkeys(SALES, 1)
        assert self._parked() == []

    def book_the_demos_orders(self, *, kills: int) -> None:
        """Run the demo's service in two processes. It has no resolver, so a kill leaves messages In Doubt."""
        lines = b"\n".join(make_orders(ORDERS)).decode(errors="surrogateescape").splitlines()
        wanted = {order["headers"]["uuid"] for order in map(_read, lines) if order is not None}
        self._send("demo-orders", lines)

        with ExitStack() as shift:
            workers = [shift.enter_context(self._running("triggers.demo.booking")) for _ in range(2)]
            for kill in range(1, kills + 1):
                eventually(lambda kill=kill: len(self._booked()) >= 40 * kill)  # type: ignore[misc]
                workers.pop(0).kill()
                workers.append(shift.enter_context(self._running("triggers.demo.booking")))
            eventually(lambda: self._nothing_waits("demo-orders"))

        booked, parked = self._booked(), self._parked()
        in_doubt = {uuid for kind, uuid in parked if kind == "in doubt"}
        assert set(booked.values()) == {1}
        assert wanted <= booked.keys() | in_doubt
        assert len(in_doubt) <= kills * CONCURRENCY
        assert len([kind for kind, _ in parked if kind != "in doubt"]) <= BROKEN

    def _copy_readme(self) -> None:
        [shop] = [block for block in blocks(ROOT / "docs" / "resolvers.md") if block.file == "shop.py"]
        text = "\n".join(shop.lines) + "\n"
        assert SELL in text
        assert DECLARED in text
        slow = text.replace(SELL, SELL + "    time.sleep(0.3)\n")
        leased = slow.replace(DECLARED, f"{DECLARED[:-2]}, lease=timedelta(seconds={LEASE}))\n")
        imports = "import time\nfrom datetime import timedelta\n"
        (self.doubtless.folder / "shop.py").write_text(imports + leased, encoding="utf-8")

    def _send_sales(self) -> None:
        lines = [json.dumps({"headers": {"uuid": uuid}, "body": {"amount": 1.5}}) for uuid in SALES]
        self._send("sales", lines * 2)

    def _send(self, destination: str, lines: Sequence[str]) -> None:
        file = self.doubtless.folder / f"{destination}.jsonl"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        answer = self.doubtless("send", destination, file.name, "--provider", self.redis_url)
        assert answer.code == 0, answer.err

    @contextmanager
    def _running(self, module: str) -> Generator["subprocess.Popen[str]"]:
        """Run a module's triggers until the block ends. Others soon take over a killed process's messages."""
        provider = f"{self.redis_url}?claim_idle=3&reclaim_interval=0.2"
        words = ("run", module, "--provider", provider, "--history", self.redis_url)
        with (self.doubtless.folder / "worker.log").open("a") as log:
            worker = self.doubtless.start(*words, stdout=log.fileno(), stderr=log.fileno())
        try:
            yield worker
        finally:
            worker.kill()
            worker.communicate()

    def _nothing_waits(self, destination: str) -> bool:
        return is_drained(self.redis_url, destination)

    def _log(self) -> str:
        return (self.doubtless.folder / "worker.log").read_text(encoding="utf-8")

    def _parked(self) -> list[tuple[str, str | None]]:
        answer = self.doubtless("parked", "list", "--json", "--limit", "1000", "--history", self.redis_url)
        return [(one["kind"], one["uuid"]) for one in answer.json]

    def _sold(self) -> Counter[str]:
        return self._effects("books.sqlite3", "SELECT uuid FROM books")

    def _booked(self) -> Counter[str]:
        return self._effects("bookings.sqlite3", "SELECT uuid FROM bookings")

    def _effects(self, file: str, query: str) -> Counter[str]:
        with closing(sqlite3.connect(self.doubtless.folder / file, timeout=30)) as books:
            try:
                return Counter(uuid for (uuid,) in books.execute(query))
            except sqlite3.OperationalError:  # the table does not exist yet
                return Counter()


def _read(line: str) -> Any:
    """Return an order of the demo's file, or None for a broken line."""
    try:
        order = json.loads(line)
        return order if order["body"]["amount"] > 0 and line.isprintable() else None
    except (KeyError, ValueError):
        return None
