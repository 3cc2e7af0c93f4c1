"""The demo's service: it books each order into a SQLite file, named by BOOKINGS (default bookings.sqlite3).

The table has no unique key, so that an order that was booked twice would stand there twice.
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


class Order(BaseModel):
    """What the body of a message must be."""

    id: str
    customer: str
    amount: PositiveFloat


#: What a killed worker had in flight is looked at after so long: the usual 30 seconds would be a long demo.
LEASE = timedelta(seconds=2)


@trigger("demo-orders", name="demo-booking", concurrency=4, lease=LEASE)
def book(order: Order, delivery: Delivery) -> None:
    """Book one order."""
    try:
        with closing(connect()) as connection, connection:
            connection.execute(
                "INSERT INTO bookings VALUES (?, ?, ?, ?)",
                (delivery.uuid, order.id, order.amount, delivery.attempt),
            )
    except sqlite3.OperationalError as error:  # such as "database is locked": nothing was booked
        raise TransientError(str(error)) from error


def connect() -> sqlite3.Connection:
    """Open the bookings; the table is created where it is missing."""
    connection = sqlite3.connect(os.environ.get("BOOKINGS", "bookings.sqlite3"), timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(CREATE)
    return connection
