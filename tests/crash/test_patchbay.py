"""A Patch Bay is killed before any of its writes: nothing is lost, and nothing happens twice.

Five points are tried, evenly spread; with ``DOUBTLESS_FULL=1`` every one.
"""

import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql

from history.message import Message
from tests.fixtures.databases import asked
from tests.fixtures.scale import sized
from triggers.patchbay import PatchBay, read_patchbay

pytestmark = [pytest.mark.crash, pytest.mark.prove]

WIRING = """
[patchbay]
history = "{url}"
release_interval = "50ms"
lease = "1s"
[providers.main]
url = "{url}{mark}lease=1&poll_interval=0.05"
[[source]]
name = "shop"
component = "tests.crash.victims.patchbay_victim:silent"
[[source.output]]
to = ["orders"]
[[sink]]
name = "booking"
component = "tests.crash.victims.patchbay_victim:book"
[[sink.input]]
from = [
  {{ destination = "orders", redelivery = {{ failure_port = "F", max_attempts = {attempts}, delay = 0 }} }},
]
[[sink.output]]
port = "OUT"
to = ["booked"]
[[sink.redelivery_port]]
port = "F"
to = ["errors", "dead"]
"""

#: Enough attempts, because a kill may use one.
ATTEMPTS = 4

#: More writes than one run has.
MOST_WRITES = 120

EMPTY = tuple(f"dms_limbo_{name}" for name in ("msg", "state", "body", "props", "ptypes", "replyto", "delay"))


@dataclass(frozen=True, slots=True)
class Bench:
    """A database with three messages: one that fails once, one that always fails, a delayed one."""

    folder: Path
    url: str

    @property
    def file(self) -> Path:
        return self.folder / "patchbay.toml"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return asked(self.url, query)

    def prepare(self) -> None:
        self.folder.mkdir()
        mark = "&" if "?" in self.url else "?"
        self.file.write_text(WIRING.format(url=self.url, mark=mark, attempts=ATTEMPTS))
        self.rows("CREATE TABLE effects (uuid TEXT)")
        with PatchBay(read_patchbay(self.file)) as bay:
            context = bay.context("shop")
            context.send("DEFAULT", "hello", uuid="once", properties={"fails": 1})
            context.send("DEFAULT", "hello", uuid="always", properties={"fails": 99})
            later = datetime.now(UTC) + timedelta(milliseconds=300)
            context.send("DEFAULT", Message(body="hello", uuid="later", delivery_time=later))

    def waiting(self, queue: str) -> Counter[str]:
        """Count the messages of a queue by uuid."""
        told = "SELECT m.uuid FROM dms_queue_entry AS e JOIN dms_msg AS m ON m.msg_id = e.msg_id"
        rows = self.rows(
            f"{told} JOIN dms_queue AS q ON q.queue_id = e.queue_id WHERE q.queue_name = '{queue}'"
        )
        return Counter(str(uuid) for (uuid,) in rows)

    def check(self, point: int) -> None:
        told = f"killed before write {point}"
        effects = Counter(str(uuid) for (uuid,) in self.rows("SELECT uuid FROM effects"))
        left = {name: self.rows(f"SELECT COUNT(*) FROM {name}")[0][0] for name in EMPTY}  # noqa: S608  (ours)
        assert effects == {"once": 1, "later": 1}, told
        assert self.waiting("booked") == {"once-booked": 1, "later-booked": 1}, told
        assert self.waiting("errors") == self.waiting("dead") == {"always": 1}, told
        assert self.waiting("orders") == {}, told
        assert not any(left.values()), (told, left)


@pytest.fixture(params=["sqlite", "postgres"])
def make_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[int], Bench]]:
    """Make a bench with a separate database for each point."""
    made: list[str] = []
    server = cast("str", request.getfixturevalue("postgres_server")) if request.param == "postgres" else None

    def make(point: int) -> Bench:
        folder = tmp_path / f"run-{point}"
        if server is None:
            return Bench(folder, f"sqlite:///{folder}/shop.sqlite3")
        made.append(f"doubtless_{secrets.token_hex(8)}")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(made[-1])))
        return Bench(folder, f"{server}?options=-csearch_path%3D{made[-1]}")

    yield make
    for name in made:
        with psycopg.connect(server or "", autocommit=True, options="-clock_timeout=10s") as connection:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def test_killed_before_any_of_its_writes_it_loses_nothing_and_repeats_nothing(
    make_bench: Callable[[int], Bench],
) -> None:
    wanted = sized(5, full=0)
    step = 1 if wanted == 0 else MOST_WRITES // wanted
    benches = {point: make_bench(point) for point in range(1 + step // 2, MOST_WRITES, step)}
    for bench in benches.values():
        bench.prepare()

    words = [f"{bench.file}={point}" for point, bench in benches.items()]
    victim = [sys.executable, "-m", "tests.crash.victims.patchbay_victim", *words]
    done = subprocess.run(victim, capture_output=True, text=True, check=False, cwd=Path.cwd())

    assert done.returncode == 0, done.stderr[-3000:]
    reached = [int(line) for line in done.stdout.split()]
    assert reached, "no point was reached"
    for point, bench in benches.items():
        bench.check(point)
