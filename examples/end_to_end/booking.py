import os

from pydantic import BaseModel

from doubtless import Producer, trigger
from tasks import ship

REDIS = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")

producer = Producer(REDIS)


class Order(BaseModel):
    id: str
    amount: float


# Both effects are messages under keys of the order, so a second run after a
# crash sends copies, which run nowhere: in_doubt="execute" is safe.
@trigger("orders", name="book-order", in_doubt="execute")
def book(order: Order) -> None:
    ship.delay(order.id)
    producer.send("bookings", order, uuid=f"booking-{order.id}")
