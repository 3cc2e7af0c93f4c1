"""A process that books orders with the offsets of their topic: ``offsets_victim PROVIDER``."""

import random
import sys

from sqlalchemy import Connection, text

from triggers import Consumer, TransientError, trigger

#: The topic of the orders.
ORDERS = "orders"

#: One in so many runs fails with a transient error, after its effect.
FAILS = 20


@trigger(ORDERS, name="book", transacted=True, concurrency=2)
def book(body: bytes, connection: Connection) -> None:
    connection.execute(text("INSERT INTO booked VALUES (:number)"), {"number": int(body)})
    if random.randrange(FAILS) == 0:  # noqa: S311  (no secret)
        raise TransientError("for now")


if __name__ == "__main__":
    Consumer([book], sys.argv[1]).run()
