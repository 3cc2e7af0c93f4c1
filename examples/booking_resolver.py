"""A pluggable resolver: it finds the bookings of a travel agency, and undoes half a booking.

Its service books a trip in two steps: it holds the seats, then confirms the booking. If a worker dies between
the two steps, the seats stay held. This resolver finds out how far the service got, gives the seats back, and
only then says NEW. A resolver may have such effects.

A distribution offers it to others as an entry point, and they use it by name (``resolver="booking"``)::

    [project.entry-points."doubtless.resolvers"]
    booking = "booking_resolver:already_booked"

The database is the file named by the environment variable ``BOOKINGS``, else ``bookings.db``.
"""

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

from doubtless import Message, Resolution, Resolved
from doubtless.resolvers import Evidence

#: A younger run may still be working. The service itself gives up after half of this time.
LONGEST_RUN = timedelta(minutes=10)

TABLES = """
CREATE TABLE IF NOT EXISTS bookings (uuid TEXT PRIMARY KEY, trip TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS held_seats (uuid TEXT NOT NULL, seat TEXT NOT NULL);
"""


def already_booked(
    uuid: str, trigger_name: str, message: Message, evidence: Evidence
) -> Resolved:
    """Look for the booking of ``uuid``, and undo half a booking."""
    del (
        trigger_name,
        message,
    )  # one trigger books trips, and it books them under the uuid
    with closing(connect()) as database, database:
        if database.execute(
            "SELECT 1 FROM bookings WHERE uuid = ?", [uuid]
        ).fetchone():
            return Resolved(Resolution.DUPLICATE, "the booking is confirmed")
        if may_be_running(evidence):
            return Resolved(
                Resolution.IN_DOUBT,
                "no booking yet, but its worker may still be at work",
            )
        freed = database.execute(
            "DELETE FROM held_seats WHERE uuid = ?", [uuid]
        ).rowcount
        return Resolved(
            Resolution.NEW, f"no booking; gave back {freed} held seats"
        )


def may_be_running(evidence: Evidence) -> bool:
    """Whether an earlier run is too young to be presumed dead. A run of unknown age counts as young."""
    return (
        evidence.started_at is None
        or datetime.now(UTC) - evidence.started_at < LONGEST_RUN
    )


def connect() -> sqlite3.Connection:
    """Open the agency's database."""
    database = sqlite3.connect(os.environ.get("BOOKINGS", "bookings.db"))
    database.executescript(TABLES)
    return database
