"""One process of the crash test of order: ``ordering_service FOLDER PROVIDER HISTORY``.

Its service has an effect in a file, with moments before and after it to be killed in, and fails now and then.
"""

import os
import random
import sys
import time
from datetime import timedelta
from pathlib import Path

from tests.fixtures.ledger import Ledger
from triggers import Consumer, Message, TransientError, Trigger, trigger
from triggers.consumer.ordering import active, workers

NAME = DESTINATION = "orders"

CONCURRENCY = 8

#: For how long a process that was killed or frozen stays the active consumer, in seconds.
LEASE = 1.5

#: The longest moment on either side of the effect, in seconds.
LONGEST_MOMENT = 0.004

#: One run in so many fails before its effect, and is rolled back.
FAILS_ONE_IN = 30


def begun_in(folder: Path) -> Ledger:
    """Return the file with the messages that the service began: group and number."""
    return Ledger(folder / "begun")


def effects_of(folder: Path) -> Ledger:
    """Return the file with the effects: group, number and process."""
    return Ledger(folder / "effects")


def make_trigger(folder: Path) -> Trigger[..., None]:
    begun, effects = begun_in(folder), effects_of(folder)
    chance = random.Random()  # noqa: S311  (no secret)

    @trigger(
        DESTINATION,
        name=NAME,
        ordered=True,
        lease=timedelta(seconds=LEASE),
        concurrency=CONCURRENCY,
        transacted=True,
        local_parking_file=folder / "parked.sqlite3",
    )
    def work(message: Message) -> None:
        place = (message.group_id or "", str(message.group_sequence))
        begun.note(*place)
        time.sleep(chance.uniform(0, LONGEST_MOMENT))
        if chance.random() * FAILS_ONE_IN < 1:
            raise TransientError("now and then")
        effects.note(*place, str(os.getpid()))
        time.sleep(chance.uniform(0, LONGEST_MOMENT))

    return work


if __name__ == "__main__":
    active.LEASE = timedelta(seconds=LEASE)
    workers.STANDBY_PAUSE = 0.1
    folder, provider, history = sys.argv[1:]
    Consumer([make_trigger(Path(folder))], provider, history=history, parent=os.getppid()).run(signals=True)
