"""A service that books orders into SQLite and checks the fence: ``doubtless run examples.orders``.

The table answers two questions. Is an order booked? The resolver asks this after a crash. And under which
fence? A worker that was presumed dead and comes back late has a smaller fence, so it changes nothing.

The database is the file named by the environment variable ``BOOKINGS``, else ``bookings.db``.
"""

import logging
import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import timedelta

from pydantic import BaseModel, PositiveFloat

from doubtless import (
    Delivery,
    Message,
    Resolution,
    Resolved,
    RetrievalFailureEvent,
    Retry,
    on_retrieval_failure,
    trigger,
)

TABLE = """
CREATE TABLE IF NOT EXISTS bookings (
    uuid TEXT PRIMARY KEY, fence INTEGER NOT NULL, order_id TEXT NOT NULL, amount REAL NOT NULL
)
"""

# A second booking of an order changes nothing, unless its fence is greater: then a person decided so.
BOOK = """
INSERT INTO bookings (uuid, fence, order_id, amount) VALUES (:uuid, :fence, :id, :amount)
ON CONFLICT (uuid) DO UPDATE SET fence = :fence, order_id = :id, amount = :amount WHERE fence < :fence
"""

_log = logging.getLogger(__name__)


class Order(BaseModel):
    """The body of a message."""

    id: str
    amount: PositiveFloat


def already_booked(uuid: str, trigger_name: str, message: Message) -> Resolved:
    """Look for the booking of ``uuid`` in the table. It is the only effect, in one transaction."""
    del (
        trigger_name,
        message,
    )  # only this trigger books, and it books under the uuid
    with connected() as bookings:
        found = bookings.execute(
            "SELECT fence FROM bookings WHERE uuid = ?", [uuid]
        ).fetchone()
    if found is None:
        return Resolved(Resolution.NEW, "no such booking")
    return Resolved(Resolution.DUPLICATE, f"booked under fence {found[0]}")


@trigger(
    "shop-orders",
    name="book-shop-order",
    resolver=already_booked,
    lease=timedelta(minutes=1),
    retry=Retry(max_attempts=3, interval=timedelta(seconds=1), backoff=2),
    transient=(ConnectionError, TimeoutError, sqlite3.OperationalError),
)
def book(order: Order, delivery: Delivery) -> None:
    """Book one order."""
    with connected() as bookings:
        bookings.execute(
            BOOK,
            {
                "uuid": delivery.uuid,
                "fence": delivery.fence,
                **order.model_dump(),
            },
        )


@on_retrieval_failure("book-shop-order")
def tell(event: RetrievalFailureEvent) -> None:
    """Report that an order was given up: here, in the log."""
    _log.error(
        "%s: %s (%s)", event.trigger_name, event.cause, event.exception_message
    )


@contextmanager
def connected() -> Generator[sqlite3.Connection]:
    """Open the bookings, in one transaction."""
    with (
        closing(
            sqlite3.connect(
                os.environ.get("BOOKINGS", "bookings.db"), timeout=30
            )
        ) as bookings,
        bookings,
    ):
        bookings.execute(TABLE)
        yield bookings
