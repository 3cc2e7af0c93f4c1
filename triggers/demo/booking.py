"""The demo's service: it books each order into a SQLite file, named by BOOKINGS (default bookings.sqlite3).

The table has no unique key, so an order that was booked twice would have two rows.
"""

import os
import sqlite3
from contextlib import closing
from datetime import timedelta

from pydantic import BaseModel, PositiveFloat

from triggers import Delivery, TransientError, trigger

#: One row per booking; ``uuid`` is deliberately not unique.
CREATE = """
CREATE TABLE IF NOT EXISTS bookings (
    uuid TEXT NOT NULL, order_id TEXT NOT NULL, amount REAL NOT NULL, attempt INTEGER NOT NULL
)
"""


class BookedOrder(BaseModel):
    """The required form of the body of a message."""

    id: str
    customer: str
    amount: PositiveFloat


#: How soon a killed worker's messages are looked at: the usual 30 seconds would make the demo long.
LEASE = timedelta(seconds=2)


@trigger("demo-orders", name="demo-booking", concurrency=4, lease=LEASE)
def book(order: BookedOrder, delivery: Delivery) -> None:
    """Book one order."""
    try:
        with closing(connect()) as connection, connection:
            connection.execute(
                "INSERT INTO bookings VALUES (?, ?, ?, ?)",
                (delivery.uuid, order.id, order.amount, delivery.attempt),
            )
    except sqlite3.OperationalError as error:  # for example "database is locked": nothing was booked
        raise TransientError(str(error)) from error


def connect() -> sqlite3.Connection:
    """Open the bookings; create the table if it is missing."""
    connection = sqlite3.connect(os.environ.get("BOOKINGS", "bookings.sqlite3"), timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(CREATE)
    return connection
