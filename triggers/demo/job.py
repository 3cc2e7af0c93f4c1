"""The main job from end to end: send, book, kill the worker half way, book the rest, check every row."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from history.bridge import drive
from history.errors import DoubtlessError
from history.message import Message
from history.opening import open_history
from history.store.parking import Parked, ParkedKind
from triggers.demo.booking import book
from triggers.demo.ground import Ground
from triggers.pipeline.parking.sweep import close_settled
from triggers.producer.lines import read_lines
from triggers.service.delivery import Delivery
from triggers.service.failures import FatalError

_NO_DELIVERY = Delivery(uuid=None, fence=None, attempt=1, trigger_name=book.name)

#: The longest time without a new booking, in seconds.
DEADLINE = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The results of the lines of the file; ``mistakes`` is empty if every line is accounted for."""

    sent: int
    booked_once: int
    booked_twice: int
    duplicates: int
    in_doubt: int
    rejected: int
    killed_after: int
    seconds: float
    mistakes: tuple[str, ...]


class WorkerFailedError(DoubtlessError):
    """A worker did not do what the job needs."""

    def __init__(self, what: str, log: str) -> None:
        super().__init__(f"the worker {what}; its last words: {log or 'none'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    """The expected results of a file: orders to book and to reject, and the number of lines without uuid."""

    lines: int
    good: frozenset[str]
    broken: frozenset[str]
    nameless_good: int
    nameless_broken: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """One run of the main job, with its files in ``folder``."""

    folder: Path
    ground: Ground
    orders: Path
    say: Callable[[str], None]

    def run(self) -> Summary:
        """Send, book with a kill half way, and check.

        Raises:
            WorkerFailedError: a worker failed, or did nothing for too long.
        """
        begun = time.monotonic()
        expected = self._expect()
        self.say(f"sending {expected.lines} lines of {self.orders.name}")
        if self._send().wait() != 0:
            raise WorkerFailedError("could not send", self._last_words())
        half = self._kill_half_way(len(expected.good - expected.broken) + expected.nameless_good)
        self.say(f"killed the worker (SIGKILL) after {half} bookings; starting it again")
        with self._worker() as worker:
            for _ in self._progress(worker, look_every=0.2):
                pass
            if worker.returncode != 0:
                raise WorkerFailedError(f"ended with {worker.returncode}", self._last_words())
        return self.check(killed_after=half, seconds=time.monotonic() - begun)

    def _kill_half_way(self, orders: int) -> int:
        booked = 0
        with self._worker() as worker:
            for booked in self._progress(worker, look_every=0.01):
                if booked >= orders * 0.4:
                    worker.send_signal(signal.SIGKILL)
                    return booked
        raise WorkerFailedError(f"did not get beyond {booked} bookings", self._last_words())

    def _progress(self, worker: subprocess.Popen[bytes], *, look_every: float) -> Generator[int]:
        """Count the bookings repeatedly until the worker ends.

        Raises:
            WorkerFailedError: there was none for too long. A slow machine may take any time.
        """
        booked, changed = -1, time.monotonic()
        while worker.poll() is None:
            if (now := len(self._bookings())) != booked:
                booked, changed = now, time.monotonic()
            elif time.monotonic() - changed > DEADLINE:
                raise WorkerFailedError(f"booked nothing for {DEADLINE:.0f} s", self._last_words())
            yield booked
            time.sleep(look_every)

    @contextmanager
    def _worker(self) -> Generator[subprocess.Popen[bytes]]:
        worker = self._command(
            *("run", self.ground.module, "--until-idle", "2"),
            *("--parent", str(os.getpid())),  # a killed demo leaves no worker behind
            *("--provider", self.ground.worker_provider, "--history", self.ground.history),
        )
        try:
            yield worker
        finally:
            worker.kill()
            worker.wait()

    def _send(self) -> subprocess.Popen[bytes]:
        arguments = ("send", book.destination, str(self.orders), "--provider", self.ground.provider)
        return self._command(*arguments)

    def _command(self, *arguments: str) -> subprocess.Popen[bytes]:
        others = {name: value for name, value in os.environ.items() if not name.startswith("DOUBTLESS_")}
        # Without the settings of the user's own services, which are for other triggers.
        environment = {**others, "DOUBTLESS_CONFIG": os.devnull, "BOOKINGS": str(self.ground.bookings)}
        with (self.folder / "worker.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "triggers.cli", *arguments], env=environment, stdout=log, stderr=log
            )

    def _last_words(self) -> str:
        lines = (self.folder / "worker.log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else ""

    def _bookings(self) -> list[str]:
        file = self.ground.bookings
        if not file.exists():
            return []
        with closing(sqlite3.connect(file, timeout=30)) as connection:
            try:
                return [uuid for (uuid,) in connection.execute("SELECT uuid FROM bookings")]
            except sqlite3.OperationalError:  # the worker has not created the table yet
                return []

    def check(self, *, killed_after: int, seconds: float) -> Summary:
        """Compare the booked and the parked orders with the file."""
        expected, rows = self._expect(), Counter(self._bookings())
        store = open_history(self.ground.history)
        # A worker that was paused for a whole lease may have completed messages that were In Doubt meanwhile.
        drive(close_settled(book.name, store, store.parking))
        parked = drive(store.parking.list(trigger=book.name, limit=expected.lines))
        drive(store.close())
        doubtful = [message for message in parked if message.kind is ParkedKind.IN_DOUBT]
        rejected = len(parked) - len(doubtful)
        in_doubt_uuids = {message.uuid for message in doubtful}
        settled = sum(1 for uuid in rows if uuid not in in_doubt_uuids)
        return Summary(
            sent=expected.lines,
            booked_once=sum(1 for times in rows.values() if times == 1),
            booked_twice=sum(1 for times in rows.values() if times > 1),
            duplicates=expected.lines - settled - len(doubtful) - rejected,
            in_doubt=len(doubtful),
            rejected=rejected,
            killed_after=killed_after,
            seconds=seconds,
            mistakes=(*_mistakes(expected, rows, parked), *self._broken_promise(doubtful)),
        )

    def _broken_promise(self, doubtful: Sequence[Parked]) -> Iterator[str]:
        if self.ground.atomic:
            yield from _named(in_doubt_although_atomic=(message.uuid or message.id for message in doubtful))

    def _expect(self) -> _Expected:
        """Read the file as the service would."""
        uuids: dict[bool, list[str | None]] = {True: [], False: []}
        with self.orders.open("rb") as file:
            for line in read_lines(file):
                uuids[_is_order(line.message)].append(line.message.uuid)
        good, broken = uuids[True], uuids[False]
        return _Expected(
            lines=len(good) + len(broken),
            good=frozenset(uuid for uuid in good if uuid is not None),
            broken=frozenset(uuid for uuid in broken if uuid is not None),
            nameless_good=good.count(None),
            nameless_broken=broken.count(None),
        )


def _is_order(message: Message) -> bool:
    try:
        book.binding.arguments(message, _NO_DELIVERY)
    except FatalError:
        return False
    return True


def _mistakes(expected: _Expected, rows: Counter[str], parked: Sequence[Parked]) -> Iterator[str]:
    """Compare the booked rows and the parked messages with the file."""
    booked = set(rows)
    aside = {message.uuid or message.id for message in parked}
    # The provider adds names that the file does not have.
    named = expected.good | expected.broken
    nameless = {uuid for uuid in booked | aside if uuid.startswith("ID:") and uuid not in named}
    yield from _named(booked_twice=(uuid for uuid, times in rows.items() if times > 1))
    # If a uuid has a good and a broken line, the first one that arrives decides.
    yield from _named(lost=expected.good - expected.broken - booked - aside)
    yield from _named(invented=booked - expected.good - nameless)
    yield from _named(broken_but_not_parked=expected.broken - expected.good - aside)
    whole = expected.nameless_good + expected.nameless_broken
    if len(nameless) != whole or len(nameless & booked) > expected.nameless_good:
        yield (
            f"without a uuid are {expected.nameless_good} orders, {expected.nameless_broken} broken lines, "
            f"but {len(nameless & booked)} were booked and {len(nameless - booked)} parked"
        )


def _named(**wrong: Iterable[str]) -> Iterator[str]:
    for what, uuids in wrong.items():
        if some := sorted(uuids)[:5]:
            yield f"{what.replace('_', ' ')}: {', '.join(some)}"
