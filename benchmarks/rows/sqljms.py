"""SQL-JMS on PostgreSQL beside procrastinate and PgQueuer: the same jobs, waiting in the same server.

The steady state is timed: from the first call of a worker's job to the last, less what the first
call took on. Each worker is used as its documentation advises: ours takes a hundred messages in a call,
procrastinate runs 20 jobs at a time, PgQueuer fetches a hundred.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import psycopg
from sqlalchemy import Connection, text

from benchmarks.bench import Bench
from benchmarks.measuring import Times
from benchmarks.result import SPEED, Budget, Result, speeds
from benchmarks.rows.sqljms_rivals import PgQueuerJobs, ProcrastinateJobs
from benchmarks.rows.steady import Calls
from benchmarks.servers import private_postgres
from history.bridge import drive
from history.message import Message
from triggers import Trigger, trigger
from triggers.consumer import Consumer
from triggers.providers.sqljms.provider import SqlJms

#: How many jobs a worker does in a round.
JOBS = 1000

#: How many messages of ours share a transaction.
BATCH = 100

#: As how many usual rounds one of these counts.
SHARE = 15

#: Where the jobs of the second kind leave their one row.
TABLE = "CREATE TABLE effects (uuid TEXT)"

INSERT = text("INSERT INTO effects VALUES (:uuid)")


class Jobs(Protocol):
    """One competitor: its queue, and a worker."""

    def fill(self, count: int) -> None:
        """Queue so many jobs."""
        ...

    def work(self, count: int) -> float:
        """Work on so many messages, and return the seconds for each."""
        ...


@dataclass(slots=True)
class OurJobs:
    """A trigger on a queue, with its history in the same database; ``insert`` if it is to write a row."""

    url: str
    insert: bool
    queue: str = "queue://bench"
    sent: int = 0
    provider: SqlJms = field(init=False)

    def __post_init__(self) -> None:
        self.provider = SqlJms.from_url(self.url)

    def fill(self, count: int) -> None:
        """Send so many messages."""
        for _ in range(0, count, 1000):
            some = [
                Message(body=b'{"n": 1}', uuid=f"{self.queue}-{self.sent + number}")
                for number in range(min(count, 1000))
            ]
            self.sent += len(some)
            drive(self.provider.send(self.queue, some))

    def work(self, count: int) -> float:
        """Run a consumer until so many messages are done."""
        calls = Calls(count)
        return calls.seconds_in(Consumer([self.make_trigger(calls.note)], self.provider))

    def make_trigger(self, note: Callable[[int], None]) -> Trigger[..., None]:
        """Return the trigger, which calls ``note`` with how many messages it was given."""
        if self.insert:

            @trigger(
                self.queue, name="bench", history=self.url, transacted=True, batch=BATCH, prefetch=2 * BATCH
            )
            def write(messages: list[Message], connection: Connection) -> None:
                connection.execute(INSERT, [{"uuid": message.uuid} for message in messages])
                note(len(messages))

            return write

        @trigger(self.queue, name="bench", history=self.url, batch=BATCH, prefetch=2 * BATCH)
        def idle(messages: list[Message]) -> None:
            note(len(messages))

        return idle


@contextmanager
def open_server() -> Generator[str]:
    """Start a PostgreSQL as it is by default."""
    with private_postgres() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(TABLE)
        yield server.url


def enough(bench: Bench, jobs: int) -> int:
    """Return how many jobs :func:`take_turns` works off, with those of a round to spare."""
    return jobs * (bench.fewer(SHARE) + 2)


def take_turns(bench: Bench, what: str, competitors: Mapping[str, Jobs], jobs: int) -> Times:
    """Let competitors take turns, in changing order; the first round does not count."""
    count = bench.fewer(SHARE)
    times: dict[str, list[float]] = {name: [] for name in competitors}
    for number in bench.progress.track(range(count + 1), description=what):
        for name in list(competitors)[:: 1 if number % 2 else -1]:
            seconds = competitors[name].work(jobs)
            if number:
                times[name].append(seconds)
    return Times(times)


def measure(bench: Bench) -> Iterable[Result]:
    """Measure jobs that do nothing, and jobs that write one row."""
    for insert, work in ((False, "no-op"), (True, "one insert")):
        with open_server() as url:
            rivals: dict[str, Jobs] = {
                "procrastinate": ProcrastinateJobs(url, insert=insert),
                "PgQueuer": PgQueuerJobs(url, insert=insert),
            }
            competitors: dict[str, Jobs] = {"ours": OurJobs(url, insert=insert), **rivals}
            for competitor in competitors.values():
                competitor.fill(enough(bench, JOBS))
            times = take_turns(bench, f"SQL-JMS, {work}", competitors, JOBS)
        for name in rivals:
            what, budget = f"SQL-JMS, {work}, batches of {BATCH}", Budget(1.5, SPEED, at_least=True)
            yield speeds(times, "ours", name, what=what, beside=name, budget=budget)


def measure_growth(bench: Bench) -> Iterable[Result]:
    """Measure a queue that is nearly empty, and one where a million messages wait."""
    waiting = bench.effort.entries
    with open_server() as url:
        competitors: dict[str, Jobs] = {
            "few": OurJobs(url, insert=True, queue="queue://few"),
            "many": OurJobs(url, insert=True, queue="queue://many"),
        }
        competitors["few"].fill(enough(bench, JOBS))
        competitors["many"].fill(waiting)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        times = take_turns(bench, "SQL-JMS, growth", competitors, JOBS)
    what, budget = f"SQL-JMS, one insert, {waiting:,} messages waiting", Budget(0.9, SPEED, at_least=True)
    yield speeds(times, "many", "few", what=what, beside="a few thousand waiting", budget=budget)
