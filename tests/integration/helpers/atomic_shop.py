"""A shop with its bookings in the database that is also its history."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, text

from history import Entry, EntryOutcome
from tests.fixtures.databases import asked, engine_at
from tests.fixtures.histories import with_store
from triggers import Message, Trigger

INSERT = text("INSERT INTO bookings (uuid) VALUES (:uuid)")

Make = Callable[..., Trigger[..., Any]]


@dataclass(frozen=True)
class Shop:
    """A database with a table of bookings, which is also the history."""

    url: str
    engine: Engine

    def booked(self) -> list[str]:
        with self.engine.connect() as connection:
            return sorted(connection.execute(text("SELECT uuid FROM bookings")).scalars())

    def entry(self, uuid: str) -> Entry | None:
        return with_store(self.url, lambda store: store.lookup("book", [uuid]))[0]

    def outcome(self, uuid: str) -> EntryOutcome | None:
        entry = self.entry(uuid)
        return None if entry is None else entry.outcome


@contextmanager
def shop_at(url: str) -> Generator[Shop]:
    """Open a shop in an empty database."""
    asked(url, "CREATE TABLE bookings (uuid TEXT NOT NULL)")
    with engine_at(url) as engine:
        yield Shop(url, engine)


def insert(message: Message, connection: Connection) -> None:
    """Book a message: the service of an atomic trigger."""
    connection.execute(INSERT, {"uuid": message.uuid})
