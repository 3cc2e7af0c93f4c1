"""The services of a plant with faults. The field "do" of an order decides its outcome."""

import os
import threading
from datetime import timedelta
from pathlib import Path

from resolvers import Evidence, Resolution
from triggers import FatalError, Message, trigger

#: No code sets this event.
NEVER = threading.Event()


def look_up(uuid: str, trigger_name: str, message: Message, evidence: Evidence) -> Resolution:
    """Ask a bank that does not answer."""
    NEVER.wait()
    raise AssertionError((uuid, trigger_name, message, evidence))


def work(order: dict[str, str]) -> None:
    if order["do"] == "fail":
        raise FatalError("no such customer")
    if order["do"] == "hang":
        NEVER.wait()


@trigger("orders", name="book", resolver=look_up, concurrency=4)
def book(order: dict[str, str]) -> None:
    work(order)


@trigger("parcels", name="ship", history=os.environ["SECOND_HISTORY"])
def ship(parcel: dict[str, str]) -> None:
    work(parcel)


@trigger(
    "invoices",
    name="bill",
    parking=os.environ["LOT"],
    local_parking_file=Path(os.environ["LOCAL_FILE"]),
    lease=timedelta(seconds=5),
)
def bill(invoice: dict[str, str]) -> None:
    work(invoice)
