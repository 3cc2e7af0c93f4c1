from pathlib import Path

from pydantic import BaseModel

from doubtless import trigger


class Order(BaseModel):
    id: str


@trigger("orders", name="ship-order")
def ship(order: Order) -> None:
    with Path("shipped.txt").open("a") as shipped:
        shipped.write(f"{order.id}\n")
