"""Compares an atomic trigger on SQL-JMS with a hand-written loop, one message at a time.

Both take a message from a table of the same server, remember its uuid, write one row and remove the message,
in one transaction for each message. The atomic trigger fetches ten messages in one call.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from sqlalchemy import Connection

from benchmarks.bench import Bench
from benchmarks.result import SPEED, Budget, Result, speeds
from benchmarks.rows.sqljms import INSERT, Jobs, OurJobs, enough, open_server, take_turns
from triggers import Message, Trigger, trigger

#: How many messages a worker does in a round.
MESSAGES = 400

#: How many messages our trigger fetches together.
PREFETCH = 10

#: The tables of the loop written by hand.
NAIVE_TABLES = (
    "CREATE TABLE naive_queue (id BIGSERIAL PRIMARY KEY, uuid TEXT NOT NULL, body BYTEA NOT NULL)",
    "CREATE TABLE naive_history (uuid TEXT PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())",
)


@dataclass(slots=True)
class NaiveLoop:
    """SKIP LOCKED, insert the uuid unless it is there, the effect, delete, commit."""

    url: str
    sent: int = 0
    connection: psycopg.Connection[tuple[Any, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.connection = psycopg.connect(self.url)
        for statement in NAIVE_TABLES:
            self.connection.execute(statement)
        self.connection.commit()

    def fill(self, count: int) -> None:
        """Queue so many messages."""
        with self.connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO naive_queue (uuid, body) VALUES (%s, %s)",
                [(f"naive-{self.sent + number}", b'{"n": 1}') for number in range(count)],
            )
        self.connection.commit()
        self.sent += count

    def work(self, count: int) -> float:
        """Work on so many messages, and return the seconds for each."""
        begin = time.perf_counter()
        for _ in range(count):
            self._one()
        return (time.perf_counter() - begin) / count

    def _one(self) -> None:
        connection = self.connection
        row = connection.execute(
            "SELECT id, uuid FROM naive_queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
        ).fetchone()
        assert row is not None, "the queue was not filled"
        number, uuid = row
        remembered = connection.execute(
            "INSERT INTO naive_history (uuid) VALUES (%s) ON CONFLICT DO NOTHING RETURNING uuid", (uuid,)
        ).fetchone()
        if remembered is not None:
            connection.execute("INSERT INTO effects VALUES (%s)", (uuid,))
        connection.execute("DELETE FROM naive_queue WHERE id = %s", (number,))
        connection.commit()


@dataclass(slots=True)
class OurMessages(OurJobs):
    """A trigger that is given one message a call."""

    def make_trigger(self, note: Callable[[int], None]) -> Trigger[..., None]:
        """Return the trigger, which calls ``note`` for each message."""

        @trigger(self.queue, name="bench", history=self.url, transacted=True, prefetch=PREFETCH)
        def write(message: Message, connection: Connection) -> None:
            connection.execute(INSERT, {"uuid": message.uuid})
            note(1)

        return write


def measure(bench: Bench) -> Iterable[Result]:
    """Measure one message at a time."""
    with open_server() as url:
        competitors: dict[str, Jobs] = {"ours": OurMessages(url, insert=True), "naive": NaiveLoop(url)}
        for competitor in competitors.values():
            competitor.fill(enough(bench, MESSAGES))
        times = take_turns(bench, "atomic, one at a time", competitors, MESSAGES)
    what, budget = f"atomic, one insert, batch=1, prefetch={PREFETCH}", Budget(1, SPEED, at_least=True)
    yield speeds(times, "ours", "naive", what=what, beside="a SKIP LOCKED loop", budget=budget)
