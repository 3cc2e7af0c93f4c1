from decimal import Decimal

from django.db import close_old_connections, transaction
from pydantic import BaseModel

from doubtless import Delivery, Message, Resolution, Resolved, trigger
from shop.models import Booking


class Order(BaseModel):
    id: str
    amount: Decimal


def already_booked(uuid: str, trigger_name: str, message: Message) -> Resolved:
    close_old_connections()
    found = Booking.objects.filter(uuid=uuid).exists()
    return Resolved(Resolution.DUPLICATE if found else Resolution.NEW)


@trigger("orders", name="book-order", resolver=already_booked)
def book(order: Order, delivery: Delivery) -> None:
    close_old_connections()  # as Django does before each request
    with transaction.atomic():
        Booking.objects.create(
            uuid=delivery.uuid, order=order.id, amount=order.amount
        )
