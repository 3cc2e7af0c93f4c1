"""The services for the tests of the command line. The name of an order decides its outcome."""

import os
import signal
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from triggers import FatalError, trigger

#: The services write one line for each run to this file in the current folder.
DONE = Path("done.txt")


class Order(BaseModel):
    id: str


@trigger("orders", name="book", lease=timedelta(seconds=0.3))
def book(order: Order) -> None:
    if order.id == "fails":
        raise FatalError("[red]no such [/red] customer \x1b[31m:smile:")
    if order.id == "kills" and not DONE.exists():
        os.kill(os.getpid(), signal.SIGKILL)
    note(order.id)


@trigger("parcels", name="ship")
async def ship(order: Order) -> None:
    note(order.id)


def note(done: str) -> None:
    with DONE.open("a") as file:
        file.write(f"{done}\n")
