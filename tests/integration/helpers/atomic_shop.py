"""A shop with its bookings in the database that is also its history."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, text

from history import Entry, EntryOutcome, open_history
from history.bridge import drive
from triggers import Trigger

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
        store = open_history(self.url)
        try:
            return drive(store.lookup("book", [uuid]))[0]
        finally:
            drive(store.close())

    def outcome(self, uuid: str) -> EntryOutcome | None:
        entry = self.entry(uuid)
        return None if entry is None else entry.outcome
