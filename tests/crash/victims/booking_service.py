"""One process that books orders: ``booking_service FOLDER PROVIDER HISTORY LEASE``."""

import logging
import sys
import time
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from tests.fixtures.ledger import Ledger
from triggers import Consumer, Message, Trigger, trigger

#: The queue, and the trigger's name.
NAME = "orders-from-java"

CONCURRENCY = 2

#: How long a run takes after its effect, in seconds: processes are killed with some of them in flight.
WORK = 0.003

#: For how long a killed process is presumed alive, in seconds.
SHORT_LEASE = 2

#: The lease of tests without kills: a process that pauses for seconds is still alive.
LONG_LEASE = 60


class Order(BaseModel):
    """The body of the messages that a producer sends."""

    id: int


def effects_of(folder: Path) -> Ledger:
    """Return the file with the booked orders, by uuid."""
    return Ledger(folder / "effects")


def make_trigger(folder: Path, lease: timedelta) -> Trigger[..., None]:
    effects = effects_of(folder)

    file = folder / "parked.sqlite3"

    @trigger(NAME, name=NAME, concurrency=CONCURRENCY, lease=lease, local_parking_file=file)
    def book(order: Order, message: Message) -> None:
        effects.note(message.uuid or "", str(order.id))
        time.sleep(WORK)

    return book


def main(folder: Path, provider: str, history: str, lease: timedelta) -> None:
    """Consume until a signal comes."""
    logging.basicConfig(level=logging.WARNING)
    Consumer([make_trigger(folder, lease)], provider, history=history).run(signals=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], timedelta(seconds=float(sys.argv[4])))
