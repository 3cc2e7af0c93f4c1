"""The main job from end to end: send, book, kill the worker half way, book the rest, check every row."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from history.bridge import drive
from history.opening import open_history
from history.parking import Parked, ParkedKind
from triggers.binding import Delivery
from triggers.cli.send import read_messages
from triggers.demo.booking import book
from triggers.failures import FatalError
from triggers.upkeep import close_settled

#: A silent worker counts as dead after a second here, so that the demo need not wait for half a minute.
FAST = "?claim_idle=1&reclaim_interval=0.2"

_NO_DELIVERY = Delivery(uuid=None, fence=None, attempt=1, trigger_name=book.name)

#: How long the workers may take altogether, in seconds.
DEADLINE = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What became of the lines of the file; ``mistakes`` is empty when every line is accounted for."""

    sent: int
    booked_once: int
    booked_twice: int
    duplicates: int
    in_doubt: int
    rejected: int
    killed_after: int
    seconds: float
    mistakes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of the main job on a Redis server, with its files in ``folder``."""

    folder: Path
    redis_url: str
    orders: Path
    say: Callable[[str], None]

    def run(self) -> Summary:
        """Send, book with a kill half way, and check.

        Raises:
            RuntimeError: a worker failed, or took longer than the deadline.
        """
        begun = time.monotonic()
        with self.orders.open("rb") as lines:
            total = sum(1 for _ in read_messages(lines))
        self.say(f"sending {total} lines of {self.orders.name}")
        self._command("send", "orders", str(self.orders), "--provider", self.redis_url).wait()
        half = self._kill_half_way(total)
        self.say(f"killed the worker (SIGKILL) after {half} bookings; starting it again")
        with self._worker() as worker:
            if worker.wait(DEADLINE) != 0:
                raise RuntimeError(f"the worker failed:\n{self._log()}")
        return self._check(total, half, time.monotonic() - begun)

    def _kill_half_way(self, total: int) -> int:
        deadline = time.monotonic() + DEADLINE
        with self._worker() as worker:
            while (booked := len(self._bookings())) < total * 0.4:
                if worker.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the worker did not get half way:\n{self._log()}")
                time.sleep(0.01)
            worker.send_signal(signal.SIGKILL)
        return booked

    @contextmanager
    def _worker(self) -> Iterator[subprocess.Popen[bytes]]:
        worker = self._command(
            *("run", "triggers.demo.booking", "--until-idle", "2"),
            *("--provider", self.redis_url + FAST, "--history", self.redis_url),
        )
        try:
            yield worker
        finally:
            worker.kill()
            worker.wait()

    def _command(self, *words: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "BOOKINGS": str(self.folder / "bookings.sqlite3")}
        with (self.folder / "worker.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "triggers.cli", *words], env=environment, stdout=log, stderr=log
            )

    def _log(self) -> str:
        return (self.folder / "worker.log").read_text(errors="replace")[-3000:]

    def _bookings(self) -> list[str]:
        file = self.folder / "bookings.sqlite3"
        if not file.exists():
            return []
        with closing(sqlite3.connect(file, timeout=30)) as connection:
            try:
                return [uuid for (uuid,) in connection.execute("SELECT uuid FROM bookings")]
            except sqlite3.OperationalError:  # the worker has not created the table yet
                return []

    def _check(self, total: int, half: int, seconds: float) -> Summary:
        rows = Counter(self._bookings())
        store = open_history(self.redis_url)
        # A copy that arrived while its original ran was In Doubt then; now the original has completed.
        drive(close_settled(book.name, store, store.parking))
        parked = drive(store.parking.list(trigger=book.name, limit=total))
        drive(store.close())
        doubtful = [one for one in parked if one.kind is ParkedKind.IN_DOUBT]
        rejected = len(parked) - len(doubtful)
        in_doubt_uuids = {one.uuid for one in doubtful}
        settled = sum(1 for uuid in rows if uuid not in in_doubt_uuids)
        return Summary(
            sent=total,
            booked_once=sum(1 for times in rows.values() if times == 1),
            booked_twice=sum(1 for times in rows.values() if times > 1),
            duplicates=total - settled - len(doubtful) - rejected,
            in_doubt=len(doubtful),
            rejected=rejected,
            killed_after=half,
            seconds=seconds,
            mistakes=tuple(self._mistakes(rows, doubtful, rejected)),
        )

    def _mistakes(self, rows: Counter[str], doubtful: list[Parked], rejected: int) -> Iterator[str]:
        """Compare the booked rows with the file, line by line."""
        twice = [uuid for uuid, times in rows.items() if times > 1]
        if twice:
            yield f"booked more than once: {twice[:5]}"
        expected, broken = self._expected()
        known = {one.uuid for one in doubtful}
        lost = [uuid for uuid in expected if uuid not in rows and uuid not in known]
        if lost:
            yield f"neither booked nor In Doubt: {lost[:5]}"
        invented = [uuid for uuid in rows if uuid not in expected]
        if invented:
            yield f"booked, but not in the file: {invented[:5]}"
        if rejected != broken:
            yield f"{broken} lines are broken, but {rejected} were rejected"

    def _expected(self) -> tuple[set[str], int]:
        """Read the file as the service would: the uuids to book, and how many lines are none."""
        expected: set[str] = set()
        broken = 0
        with self.orders.open("rb") as lines:
            for message, _ in read_messages(lines):
                try:
                    book.binding.arguments(message, _NO_DELIVERY)
                except FatalError:
                    broken += 1
                else:
                    expected.add(message.uuid or "")
        return expected, broken
