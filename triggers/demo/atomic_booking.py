"""The demo's service on one SQLite file: messages, history and bookings share each transaction.

The table has no unique key, so an order that was booked twice would have two rows.
"""

from sqlalchemy import Connection, text

from triggers import Delivery, trigger
from triggers.demo.booking import CREATE, BookedOrder

_INSERT = text("INSERT INTO bookings VALUES (:uuid, :order_id, :amount, :attempt)")


@trigger("demo-orders", name="demo-booking", transacted=True)
def book(order: BookedOrder, delivery: Delivery, connection: Connection) -> None:
    """Book one order."""
    connection.execute(text(CREATE))
    booking = {"uuid": delivery.uuid, "order_id": order.id, "amount": order.amount}
    connection.execute(_INSERT, {**booking, "attempt": delivery.attempt})
